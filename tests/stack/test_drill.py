"""The incident drill: twelve kinds of trouble, on a real Airflow, and exactly the right alerts for each.

Every dataset has one interval, which ends some minutes after the drill begins and is due seconds later. The first act
is what can go wrong at once; then every Airflow process is started again; the second act holds scheduler and triggerer,
the third the catalog. At the end everything is mended, mostly by the command that the alert itself names.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console
from rich.table import Table

from lakehouse import naming
from lakehouse.airflow_api import AirflowApi
from lakehouse.catalog import coverage, table
from lakehouse.ledger import mutes
from lakehouse.ledger import sla as ledger
from lakehouse.ledger.database import engine, sla_promises
from lakehouse.settings import settings
from lakehouse.sla import Kind
from tests.receiver import Receiver
from tests.stack.drill import AHEAD, BROKEN, GATE, Drill, Scene, minute
from tests.stack.harness import eventually, free_ports

pytestmark = [pytest.mark.timeout(3000), pytest.mark.full]


@pytest.fixture(scope="module")
def receiver(running) -> Iterator[Receiver]:
    """The webhook that the whole stack tells, for as long as the drill lasts."""
    made, file = Receiver(*free_ports(1)), running.folder / ".env"
    before = file.read_text()
    file.write_text(f"{before}LAKEHOUSE_ALERT_WEBHOOK={made.url}\nLAKEHOUSE_WATCH_SECONDS=3\n")
    settings.cache_clear()
    yield made
    file.write_text(before)
    settings.cache_clear()


@pytest.fixture(scope="module")
def drill(running, receiver, airflow) -> Iterator[Drill]:
    with AirflowApi(airflow) as api:
        made = Drill(running, api, receiver)
        made.restart_airflow()  # it may run without this webhook
        running.lakehouse("up", "--only", "watch")
        yield made
        made.supervisor.stop("watch")
        for scene in made.scenes:
            (settings().contracts / naming.layer_of(scene.dataset) / f"{scene.name}.yaml").unlink(missing_ok=True)
        with engine().begin() as connection:
            connection.execute(sla_promises.delete().where(sla_promises.c.dataset.endswith(made.mark)))


def test_for_each_trouble_exactly_the_right_alerts(drill, capsys):
    first_act(drill)
    drill.restart_airflow()
    second_act(drill)
    third_act(drill)
    with drill.receiver.up():
        everything_is_mended(drill)
    drill.sort()
    with capsys.disabled():
        Console(width=150).print(results(drill.scenes))
    for scene in drill.scenes:
        check(scene)
    assert one_alert_names_the_three_behind_it(drill)
    assert len(opened(drill)) == len([scene for scene in drill.scenes if scene.expected])


def first_act(drill: Drill) -> None:
    """What goes wrong with single datasets. The receiver is down all the while."""
    end = minute(AHEAD)
    late = drill.scene(1, "landing file late", "bronze.late", end, "sensor_waiting")
    source = drill.scene(2, "source of the failing job", "bronze.works", end, within="1h")
    fails = drill.scene(
        2, "Spark job fails", "silver.fails", end, "task_failed", within="1h", reads=source.dataset, more=BROKEN
    )
    gate = drill.scene(3, "gate fails", "bronze.gate", end, "gate_failed", within="1h", more=GATE)
    paused = drill.scene(4, "DAG paused", "bronze.paused", end, "dag_paused")
    nothing = drill.scene(
        8, "green run that published nothing", "bronze.nothing", end, "published_nothing", within="2m"
    )
    root = drill.scene(9, "upstream of three tables late", "bronze.root", end, "sensor_waiting")
    behind = [
        drill.scene(9, "waits behind it", f"silver.behind_{n}", end, within="30s", reads=root.dataset) for n in range(3)
    ]
    past = drill.scene(10, "backfill of the past", "bronze.past", end - timedelta(days=2))
    muted = drill.scene(11, "muted dataset", "bronze.muted", end)
    mutes.mute(muted.dataset, end + timedelta(hours=1), why="the drill", by="drill", now=datetime.now(UTC))
    for scene in (source, gate, past):
        drill.deliver(scene)
    drill.promised(*drill.scenes)
    drill.switch_on(late, source, fails, gate, nothing, root, *behind, past, muted)
    eventually(lambda: drill.state(nothing, "wait") == "deferred", 300, "the run waits that will be marked as green")
    mark_green(drill, nothing)
    drill.await_told(late, fails, gate, paused, nothing, root, seconds=420)
    eventually(lambda: recorded(muted), 120, "the muted miss is recorded all the same")
    eventually(lambda: covered(past), 300, "the past is backfilled")
    assert drill.receiver.taken == []


def mark_green(drill: Drill, scene: Scene) -> None:
    run = drill.api.run_at(scene.dag, scene.interval.start)
    drill.api._call("PATCH", f"/api/v2/dags/{run.dag}/dagRuns/{run.run_id}", json={"state": "success"})


def second_act(drill: Drill) -> None:
    """Scheduler and triggerer are held: each is the root of what it holds up."""
    end = minute(AHEAD)
    waits = drill.scene(6, "triggerer held", "bronze.waits", end, "triggerer_down", "airflow-triggerer", within="150s")
    starts = drill.scene(
        5, "scheduler held", "bronze.starts", end + timedelta(minutes=2), "scheduler_down", "airflow-scheduler"
    )
    drill.promised(waits, starts)
    drill.switch_on(waits, starts)
    eventually(lambda: drill.state(waits, "wait") == "deferred", 300, "the run waits in the triggerer")
    assert datetime.now(UTC) < starts.end, "too slow: the other run has begun"
    held = [drill.hold("airflow-triggerer"), drill.hold("airflow-scheduler")]
    try:
        drill.deliver(waits)
        drill.deliver(starts)
        drill.await_told(waits, starts, seconds=420)
    finally:
        for process in held:
            drill.let_go(process)


def third_act(drill: Drill) -> None:
    """Nothing can be published without the catalog."""
    end = minute(AHEAD)
    scene = drill.scene(7, "catalog down", "bronze.catalog", end, "catalog_down", "catalog", within="30s")
    drill.deliver(scene)
    drill.promised(scene)
    drill.switch_on(scene)
    eventually(lambda: datetime.now(UTC) > end - timedelta(seconds=15), 300, "the interval is about to end")
    drill.supervisor.stop("catalog")
    try:
        drill.await_told(scene, seconds=180)
    finally:
        drill.running.lakehouse("up", "--only", "data")


def everything_is_mended(drill: Drill) -> None:
    """Data arrives, contracts are mended, and what an alert says to type is typed; then every miss is over."""
    told = {scene.name.removesuffix(f"_{drill.mark}"): scene for scene in drill.scenes}
    eventually(lambda: len(opened(drill)) >= 9, 300, "the receiver has all openings, though it was down")
    advice = {alert["dataset"]: alert["command"] for alert in opened(drill)}
    fails, gate, nothing = told["fails"], told["gate"], told["nothing"]
    drill.write(fails, within="1h", reads=told["works"].dataset)
    drill.write(gate, within="1h")
    for name in ("late", "paused", "nothing", "root", "muted"):
        drill.deliver(told[name])
    drill.run_command(advice[told["paused"].dataset])
    drill.run_command(advice[fails.dataset])
    drill.run_command(f"{_backfill(gate)} --rerun-failed-tasks")
    catalog = told["catalog"]
    if drill.api.run_at(catalog.dag, catalog.interval.start).state == "failed":  # its retries were over too soon
        drill.run_command(f"{_backfill(catalog)} --rerun-failed-tasks")
    assert nothing.dataset in open_misses(drill)
    drill.run_command(advice[nothing.dataset])
    drill.run_command(f"{_backfill(told['past'])} --reset-dagruns", "-y")
    eventually(lambda: not open_misses(drill), 900, "every miss is over")
    eventually(lambda: len(taken(drill, "closed")) >= len(opened(drill)), 300, "the receiver has all recoveries")


def _backfill(scene: Scene) -> str:
    day = scene.interval.start.date()
    return f"lakehouse airflow dags backfill -s {day} -e {day} {scene.dag}"


def opened(drill: Drill) -> list[dict]:
    return taken(drill, "opened")


def taken(drill: Drill, event: str) -> list[dict]:
    """What the receiver has of the drill: others may have left something in the outbox."""
    mine = [alert for alert in drill.receiver.taken if (alert["dataset"] or "").endswith(drill.mark)]
    return [alert for alert in mine if alert["event"] == event]


def open_misses(drill: Drill) -> list[str]:
    return [miss.dataset for miss in ledger.open_misses() if miss.dataset.endswith(drill.mark)]


def recorded(scene: Scene) -> bool:
    return any(miss.dataset == scene.dataset and miss.told_at is None for miss in ledger.open_misses())


def covered(scene: Scene) -> bool:
    return scene.interval in coverage(table(scene.dataset))


def check(scene: Scene) -> None:
    """One alert with its recovery, or none; the first that was told is the truth."""
    if scene.expected is None:
        assert scene.taken == [], f"{scene.trouble}: nobody should have been told"
        return
    events = [alert["event"] for alert in scene.taken]
    assert events == ["opened", "closed"], f"{scene.trouble}: {events}"
    first, last = scene.taken
    assert (first["cause"], first["root"]) == scene.expected, scene.trouble
    assert first["alert_id"] == last["alert_id"]
    assert (first["kind"], last["reason"]) == (Kind.READY, "arrived")
    assert first["runbook"].endswith(f"{first['cause']}.md")
    assert first["link"].startswith(f"{settings().airflow_url}/dags/{scene.dag}")
    assert first["command"].startswith("lakehouse ")


def one_alert_names_the_three_behind_it(drill: Drill) -> bool:
    root = next(scene for scene in drill.scenes if scene.name.startswith("root"))
    behind = [scene.dataset for scene in drill.scenes if scene.name.startswith("behind")]
    return root.opened[0]["blocks"] == behind and len(behind) == 3


def results(scenes: list[Scene]) -> Table:
    made = Table("nr", "trouble", "dataset", "alerts", "cause", "root", "told late by", "recovery")
    for scene in sorted(scenes, key=lambda one: one.number):
        alert = scene.opened[0] if scene.opened else {}
        closed = next((a for a in scene.taken if a["event"] == "closed"), {})
        late = f"{alert['late_seconds']} s" if alert else ""
        row = (scene.dataset, str(len(scene.opened)), alert.get("cause") or "", alert.get("root") or "", late)
        made.add_row(str(scene.number), scene.trouble, *row, closed.get("reason") or "")
    return made
