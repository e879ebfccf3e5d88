"""Waiting, for real: fifty runs that wait cost little, and end when their input is there; deadlines and the watch."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import create_engine, text

from lakehouse.airflow_api import AirflowApi, Run
from lakehouse.catalog import catalog
from lakehouse.intervals import Coverage, Interval
from lakehouse.ledger import heartbeats
from lakehouse.ledger import sla as ledger
from lakehouse.look import WATCH
from lakehouse.naming import COVERAGE, WATCH_DAG, dag_id
from lakehouse.settings import Settings, settings
from lakehouse.sla import Kind
from lakehouse.store import client
from lakehouse.watch import look
from tests.receiver import Receiver
from tests.stack import tables
from tests.stack.harness import eventually
from tests.stack.proxy import Proxy, proxied

pytestmark = pytest.mark.timeout(1800)

FIRST = date(2026, 1, 1)
DAYS = 4  # as many runs of a DAG as may be active
READERS = 13
TRIGGERER = "airflow-triggerer"
SELDOM = 10.0  # seconds: longer than a question may rest while runs still come
SHORTEST_WAIT, JITTER = 2.0, 0.2  # as in lakehouse_airflow.polling, which only Airflow's own environment imports
LAYERED = """
sla: {ready_within: 1h}
retention: {snapshots: 7d}
maintenance: {tier: daily}
"""
BRONZE = """
dataset: {dataset}
description: A source of this test's own.
owner: commerce
start: {start}
end: {end}
schedule: "{schedule}"
source: {{kind: files, path: "{path}/{{interval:%Y-%m-%d}}/"}}
"""
SILVER = """
dataset: {dataset}
description: A reader of this test's own.
owner: commerce
start: {start}
end: {end}
reads: {reads}
columns:
  id: {{type: bigint, required: true, from: id}}
  at: {{type: timestamp, required: true, from: at}}
key: [id]
newest_by: [at]
"""


class Own:
    """Contracts of this module's own; they and their DAGs go with it."""

    def __init__(self, folder: Path, api: AirflowApi) -> None:
        self.folder, self.api = folder, api
        self.mark = f"w{uuid4().hex[:6]}"
        self.written: dict[str, Path] = {}

    def write(self, name: str, form: str, more: str = LAYERED, **given: Any) -> str:
        """A contract; returns its dataset."""
        layer = "bronze" if form is BRONZE else "silver"
        dataset = f"{layer}.{self.mark}_{name}"
        days = {"start": FIRST, "end": FIRST + timedelta(DAYS), "schedule": "@daily", "path": f"{self.mark}_{name}"}
        file = self.folder / layer / f"{self.mark}_{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(form.format(dataset=dataset, **{**days, **given}) + more)
        self.written[dataset] = file
        return dataset

    def unpause(self, *datasets: str) -> None:
        wanted = {dag_id(dataset) for dataset in datasets}
        eventually(lambda: wanted <= self.api.dags(), 240, "Airflow shows the new contracts' DAGs")
        for dag in wanted:
            self.api.unpause(dag)

    def pause(self, *datasets: str) -> None:
        for dataset in datasets:
            self.api._call("PATCH", f"/api/v2/dags/{dag_id(dataset)}", json={"is_paused": True})

    def tasks(self, *datasets: str) -> list[dict[str, Any]]:
        """All task instances of these datasets' runs that have begun."""
        found = self.api._pages("/api/v2/dags/~/dagRuns/~/taskInstances", "task_instances", order_by="id")
        wanted = {dag_id(dataset) for dataset in datasets}
        return [task for task in found if task["dag_id"] in wanted and task["state"]]

    def remove(self) -> None:
        """With a contract goes its DAG, with a DAG its runs, with them what the triggerer does for them."""
        for dataset, file in self.written.items():
            file.unlink(missing_ok=True)
            self.api._ask("DELETE", f"/api/v2/dags/{dag_id(dataset)}")


@pytest.fixture(scope="module")
def api(airflow) -> Iterator[AirflowApi]:
    with AirflowApi(airflow) as session:
        yield session


@pytest.fixture(scope="module", autouse=True)
def receiver(airflow) -> Iterator[None]:
    """Somebody takes the alerts that this stack sends."""
    with Receiver(urlsplit(airflow.alert_webhook.get_secret_value()).port or 80).up():
        yield


@pytest.fixture(scope="module")
def own(airflow, api) -> Iterator[Own]:
    found = Own(settings().contracts, api)
    yield found
    found.remove()


@pytest.fixture(scope="module")
def counted(running, airflow) -> Iterator[Proxy]:
    """The triggerer, and it alone, reaches the catalog through a proxy that counts."""
    file = running.folder / ".env"
    before = file.read_text()
    with proxied(airflow.catalog_uri, b"no commit has this", "held") as proxy:
        file.write_text(f"{before}LAKEHOUSE_CATALOG_URI={proxy.uri}\n")
        try:
            restart(running)
            yield proxy
        finally:
            file.write_text(before)
            restart(running)


def restart(running) -> None:
    """Kill the triggerer, and wait until another one is at work."""
    before = running.pid(TRIGGERER)
    os.kill(before, signal.SIGKILL)
    eventually(lambda: running.pid(TRIGGERER) not in (0, before), 60, "another triggerer")
    eventually(lambda: TRIGGERER in running.healthy_services(), 240, "a healthy triggerer")


@pytest.fixture(scope="module")
def readers(own) -> dict[str, list[str]]:
    """Datasets that read one of two sources, neither of which ever delivers; all their runs wait."""
    sources = [own.write(f"source{number}", BRONZE) for number in range(2)]
    found: dict[str, list[str]] = {source: [] for source in sources}
    for number in range(READERS):
        source = sources[number % 2]
        found[source].append(own.write(f"reader{number}", SILVER, reads=source))
    return found


@pytest.fixture(scope="module")
def late(own) -> tuple[str, datetime]:
    """A dataset whose first interval ends in some minutes, then, and never arrives."""
    end = (datetime.now(UTC) + timedelta(seconds=170)).replace(second=0, microsecond=0)
    days = {"start": (end - timedelta(1)).date(), "end": (end + timedelta(1)).date()}
    clock = f"{end.minute} {end.hour} * * *"
    dataset = own.write("late", BRONZE, LAYERED.replace("1h", "60s"), schedule=clock, **days)
    look(datetime.now(UTC), by="test")  # from now on the promise is in force
    own.unpause(dataset)
    assert missed(dataset) == []
    return dataset, end


@pytest.fixture(scope="module")
def fifty(own, readers, late, counted) -> list[str]:  # late: its interval ends meanwhile
    """The datasets whose fifty runs wait, all of them."""
    datasets = [reader for found in readers.values() for reader in found]
    own.unpause(*datasets)
    eventually(
        lambda: states(own, datasets) == {("wait", "deferred"): READERS * DAYS}, 300, "all runs wait, and nothing else"
    )
    return datasets


def states(own: Own, datasets: list[str]) -> Counter[tuple[str, str]]:
    return Counter((task["task_id"], task["state"]) for task in own.tasks(*datasets))


def health(known: Settings) -> dict[str, str]:
    found = httpx.get(f"{known.airflow_url}/api/v2/monitor/health", timeout=60).json()
    return {name: found[name]["status"] for name in ("scheduler", "triggerer", "metadatabase")}


def asked(proxy: Proxy, source: str) -> list[float]:
    """When the catalog was asked for a source."""
    return [at for at, path in list(proxy.seen) if path.partition("?")[0].endswith(f"/{source.rpartition('.')[2]}")]


def rests(proxy: Proxy, source: str) -> list[float]:
    """How long the catalog was left in peace between two questions for a source."""
    times = asked(proxy, source)
    return [later - earlier for earlier, later in pairwise(times)]


def test_fifty_waiting_runs_hold_no_worker_and_cost_the_catalog_as_much_as_one(fifty, own, counted, readers, airflow):
    """Each table is asked as if one run waited for it: every two seconds at first, then ever more seldom."""
    sources = list(readers)
    eventually(
        lambda: all(max(rests(counted, s), default=0) > SELDOM for s in sources), 120, "both are asked but seldom"
    )
    print(f"\n{READERS * DAYS} runs wait for {len(sources)} tables; requests to the catalog a minute:")
    for source in sources:
        found = rests(counted, source)
        print(f"  {source}: {60 / min(found):.0f} at most, {60 / max(found):.0f} once all wait")
        assert min(found) > SHORTEST_WAIT * (1 - JITTER) * 0.9, "whoever comes, it is not asked more often"
    assert states(own, fifty) == {("wait", "deferred"): READERS * DAYS}
    assert set(health(airflow).values()) == {"healthy"}


def test_waits_survive_the_triggerer_and_say_since_when(fifty, own, running, counted, readers, api):
    restart(running)
    sources = list(readers)
    begun = time.monotonic()
    eventually(lambda: all(asked(counted, s)[-1] > begun for s in sources), 120, "the new one asks for both")
    assert states(own, fifty) == {("wait", "deferred"): READERS * DAYS}
    first = api.runs(dag_id(fifty[0]), FIRST, FIRST)[0]
    began = own.tasks(fifty[0])[0]["start_date"][:16]
    interval = f"{FIRST}T00:00:00+00:00/{FIRST + timedelta(1)}T00:00:00+00:00"
    eventually(lambda: log(api, first).count(f"waiting for {sources[0]} to hold {interval}") == 2, 60, "both told it")
    assert log(api, first).count(f" since {began}") == 2


def log(api: AirflowApi, run: Run, task: str = "wait") -> str:
    path = f"/api/v2/dags/{run.dag}/dagRuns/{run.run_id}/taskInstances/{task}/logs/1"
    content = api._call("GET", path, params={"full_content": True})["content"]
    return "\n".join(str(entry.get("event", "")) if isinstance(entry, dict) else str(entry) for entry in content)


def test_a_wait_ends_when_the_table_holds_its_interval_and_no_other_does(fifty, own, readers):
    """Whoever published it: here it is the coverage alone. The DAGs are paused, so that nothing runs after the wait."""
    source, released = next(iter(readers.items()))
    own.pause(*fifty)
    tables.make(source)
    start = datetime.combine(FIRST, datetime.min.time(), UTC)
    day = Interval(start, start + timedelta(1))
    with catalog().load_table(source).transaction() as transaction:
        transaction.set_properties({COVERAGE: Coverage.of([day]).dumps()})
    try:
        waiting = READERS * DAYS - len(released)
        eventually(
            lambda: states(own, fifty) == {("wait", "deferred"): waiting, ("wait", "scheduled"): len(released)},
            120,
            "exactly those that read it go on",
        )
        gone_on = {task["dag_id"] for task in own.tasks(*fifty) if task["state"] == "scheduled"}
        assert gone_on == {dag_id(dataset) for dataset in released}
    finally:
        catalog().drop_table(source)


def test_a_deadline_makes_the_evaluator_look_when_an_interval_falls_due(late, airflow):
    """Nobody else looks on this stack: its watch does not run, and the DAG that watches is paused."""
    dataset, end = late
    eventually(lambda: missed(dataset) != [], 400, "the miss is open")
    assert missed(dataset) == [(end, end + timedelta(seconds=60))]
    eventually(lambda: [state for state, _ in callbacks(airflow, dataset)] == ["success"], 60, "the callback is done")
    assert "missed, " in callbacks(airflow, dataset)[0][1]


def missed(dataset: str) -> list[tuple[datetime, datetime]]:
    """The open misses of a dataset's intervals, as end and due time."""
    own = [miss for miss in ledger.open_misses() if miss.dataset == dataset and miss.kind is Kind.READY]
    return [(miss.interval.end, miss.due) for miss in own]


def callbacks(known: Settings, dataset: str) -> list[tuple[str, str]]:
    """State and answer of what Airflow called for the missed deadlines of a dataset's runs."""
    password = known.airflow_db_password.get_secret_value()
    database = create_engine(f"postgresql+psycopg2://airflow:{password}@127.0.0.1:{known.postgres_port}/airflow")
    query = """
        SELECT callback.state, callback.output FROM deadline
        JOIN callback ON callback.id = deadline.callback_id JOIN dag_run ON dag_run.id = deadline.dagrun_id
        WHERE deadline.missed AND dag_run.dag_id = :dag
    """
    with database.connect() as connection:
        rows = connection.execute(text(query), {"dag": dag_id(dataset)}).all()
    database.dispose()
    return [(row.state, row.output) for row in rows]


def test_the_dag_that_watches_is_green_and_says_what_it_found(api):
    eventually(lambda: WATCH_DAG in api.dags(), 240, "Airflow shows the DAG that watches")
    if heartbeats.last(WATCH):  # the DAG looks after a watch that has run here once
        look(datetime.now(UTC))
    api.unpause(WATCH_DAG)
    try:
        run = api.trigger(WATCH_DAG)
        eventually(lambda: api.state(run) in ("success", "failed"), 240, "it has looked")
        assert api.state(run) == "success", log(api, run, "look")
        assert "missed, " in log(api, run, "look")
    finally:
        api._call("PATCH", f"/api/v2/dags/{WATCH_DAG}", json={"is_paused": True})


def test_a_run_goes_on_by_itself_and_its_steps_lead_to_spark_and_to_the_snapshot(own, api, airflow):
    source = own.write("served", BRONZE, end=FIRST + timedelta(1))
    own.unpause(source)
    eventually(lambda: states(own, [source]) == {("wait", "deferred"): 1}, 120, "the run waits")
    (run,) = api.runs(dag_id(source), FIRST, FIRST)
    folder = f"{own.mark}_served/{FIRST}"
    eventually(lambda: f"waiting for landing/{folder}/_SUCCESS since " in log(api, run), 60, "it says for what")
    client().put_object(Bucket="landing", Key=f"{folder}/one.jsonl", Body=b'{"id": 1}\n')
    client().put_object(Bucket="landing", Key=f"{folder}/_SUCCESS", Body=b"")
    eventually(lambda: api.state(run) in ("success", "failed"), 240, "the run is over")
    assert api.state(run) == "success", api.failure(run)
    assert f"ready: landing/{folder}/" in log(api, run)
    shown = {step: links(api, run, step) for step in ("write", "audit", "publish")}
    assert shown["write"]["Snapshot"].startswith(f"http://127.0.0.1:{airflow.minio_console_port}/browser/lake/")
    assert shown["write"]["Snapshot"] == shown["publish"]["Snapshot"]
    page = httpx.get(shown["write"]["Spark session"], timeout=60, follow_redirects=True)
    assert page.status_code == 200
    assert "No information to display" not in page.text
    catalog().purge_table(source)


def links(api: AirflowApi, run: Run, task: str) -> dict[str, str]:
    path = f"/api/v2/dags/{run.dag}/dagRuns/{run.run_id}/taskInstances/{task}/links"
    return api._call("GET", path)["extra_links"]
