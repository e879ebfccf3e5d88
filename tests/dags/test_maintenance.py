"""The operators of the maintenance DAGs: what they promise without any service behind them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.settings import settings

pytestmark = pytest.mark.usefixtures("airflow_home")


@pytest.fixture(autouse=True)
def turns(monkeypatch) -> list[str]:
    """How turns ended, as the ledger would know it."""
    from lakehouse.ledger import maintenance_turns, pruning

    found: list[str] = []
    monkeypatch.setattr("lakehouse.ledger.database.now", lambda: datetime.now(UTC))
    monkeypatch.setattr(pruning, "prune", lambda before: {"health": 3})
    monkeypatch.setattr(maintenance_turns, "begin", lambda _: None)
    monkeypatch.setattr(maintenance_turns, "end", lambda _, outcome: found.append(outcome))
    return found


def context(run_type: str = "scheduled", **conf: str) -> Any:
    run = SimpleNamespace(run_type=run_type, conf=conf)
    return {"dag_run": run, "ti": SimpleNamespace(dag_id="maintenance_daily", run_id="a run", try_number=1)}


@pytest.fixture
def setting(monkeypatch):
    def give(name: str, value: str) -> None:
        monkeypatch.setenv(f"LAKEHOUSE_{name}", value)
        settings.cache_clear()

    return give


def other_hours() -> str:
    """A window of one hour that is not open now, nor in the next minutes."""
    hour = datetime.now(UTC).hour
    return f"{(hour + 6) % 24:02}:00-{(hour + 7) % 24:02}:00"


def test_outside_its_window_a_scheduled_run_is_put_off_and_one_by_hand_is_not(setting, monkeypatch):
    from airflow.sdk.exceptions import AirflowSkipException

    from lakehouse_airflow.maintenance import PlanOperator

    setting("MAINTENANCE_WINDOW", other_hours())
    plan = PlanOperator(task_id="plan", tier="hot")
    with pytest.raises(AirflowSkipException, match="put off: it is not"):
        plan.execute(context())
    assert plan.execute(context("manual")) == [], "no dataset is hot"
    setting("MAINTENANCE_WINDOW", "")
    assert plan.execute(context()) == []


@pytest.fixture
def carried(monkeypatch) -> list[dict[str, Any]]:
    """What was asked to be carried out, of a dataset that somebody writes after the second step."""
    from lakehouse.maintenance import carried_out

    asked: list[dict[str, Any]] = []

    def busy(*_: object, **how: Any) -> None:
        asked.append(how)
        raise carried_out.Busy("silver.orders is being written by a run", 2)

    monkeypatch.setattr(carried_out, "carry_out", busy)
    return asked


def test_a_dataset_that_is_being_written_is_waited_for_most_of_an_hour_and_then_put_off(carried, turns):
    from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

    from lakehouse_airflow.maintenance import PATIENCE, MaintainOperator

    begun = datetime.now(UTC)
    with pytest.raises(TaskDeferred) as waiting:
        MaintainOperator(task_id="maintain", dataset="silver.orders", steps=[]).execute(context())
    assert turns == ["put off: silver.orders is being written by a run"]
    given = waiting.value.kwargs
    until = datetime.fromisoformat(given["until"])
    assert PATIENCE <= until - begun < timedelta(hours=1)
    assert (waiting.value.trigger.dataset, waiting.value.trigger.until) == ("silver.orders", given["until"])

    again = MaintainOperator(task_id="maintain", dataset="silver.orders", steps=[])
    with pytest.raises(TaskDeferred) as still:
        again.resume(context(), {"ready": "the lease"}, **given)
    assert still.value.kwargs["until"] == given["until"], "it waits no longer for having been woken"
    assert [how["start"] for how in carried] == [0, 2], "it goes on with the step that was next"
    over = {**given, "until": begun.isoformat()}
    with pytest.raises(AirflowSkipException, match=r"put off: silver\.orders is being written by a run"):
        MaintainOperator(task_id="maintain", dataset="silver.orders", steps=[]).resume(context(), None, **over)


def test_each_time_that_a_task_goes_on_it_has_spark_sessions_of_its_own(monkeypatch):
    """The server refuses one that its client has released, as it did when the task began to wait."""
    from airflow.sdk.exceptions import TaskDeferred

    from lakehouse.maintenance import carried_out
    from lakehouse_airflow.maintenance import MaintainOperator

    tries: list[Any] = []

    def busy(_contract: object, _steps: object, attempt: Any, *_: object, **how: int) -> None:
        tries.append(attempt)
        raise carried_out.Busy("silver.orders is being written by a run", 0, how["unwritten"] + 3)

    monkeypatch.setattr(carried_out, "carry_out", busy)
    kwargs: dict[str, Any] = {}
    for number in range(1, 4):
        task = MaintainOperator(task_id="maintain", dataset="silver.orders", steps=[])
        with pytest.raises(TaskDeferred) as waiting:
            task.resume(context(), None, **kwargs) if kwargs else task.execute(context())
        kwargs = waiting.value.kwargs
        assert kwargs["unwritten"] == 3 * number, "files that could not be rewritten are not forgotten"
    assert {one.run for one in tries} == {"maintenance_daily/a run"}
    assert len({one.session("remove_orphan_files-0-list-silver_orders") for one in tries}) == 3


def test_a_run_for_one_dataset_waits_for_its_lease_as_a_pipeline_does(carried):
    from airflow.sdk.exceptions import TaskDeferred

    from lakehouse_airflow.maintenance import MaintainOperator

    task = MaintainOperator(task_id="maintain", dataset="silver.orders", steps=[])
    with pytest.raises(TaskDeferred) as waiting:
        task.execute(context(dataset="silver.orders"))
    assert waiting.value.trigger.until == ""
    with pytest.raises(TaskDeferred):
        task.resume(context(dataset="silver.orders"), None, **waiting.value.kwargs)


@pytest.mark.parametrize(
    ("given", "kept"), [(context(), True), (context("manual"), False), (context(dataset="silver.orders"), False)]
)
def test_a_scheduled_run_keeps_to_its_window_to_the_end(setting, carried, given, kept):
    from airflow.sdk.exceptions import TaskDeferred

    from lakehouse_airflow.maintenance import MaintainOperator

    setting("MAINTENANCE_WINDOW", "22:00-06:00")
    with pytest.raises(TaskDeferred):
        MaintainOperator(task_id="maintain", dataset="silver.orders", steps=[]).execute(given)
    assert [how["window"] for how in carried] == ["22:00-06:00" if kept else ""]


def test_what_the_window_leaves_over_is_put_off(monkeypatch, turns):
    from airflow.sdk.exceptions import AirflowSkipException

    from lakehouse.maintenance import carried_out
    from lakehouse_airflow.maintenance import MaintainOperator

    def closed(*_: object, **__: object) -> None:
        raise carried_out.WindowClosed("it is not 22:00-06:00 UTC any more; 2 steps are left", 1)

    monkeypatch.setattr(carried_out, "carry_out", closed)
    with pytest.raises(AirflowSkipException, match="put off: it is not 22:00-06:00 UTC any more"):
        MaintainOperator(task_id="maintain", dataset="silver.orders", steps=[]).execute(context())
    assert turns == ["put off: it is not 22:00-06:00 UTC any more; 2 steps are left"]


def test_a_window_moves_the_daily_turn_to_its_beginning(parse, parsed):
    moved = parse(maintenance_window="22:30-02:00")
    assert cron(parsed) == "0 3 * * *"
    assert cron(moved) == "30 22 * * *"


def cron(parsed: Any) -> str:
    return str(parsed["dags"]["maintenance_daily"]["timetable"]["__var"]["expression"])


def test_maintenance_may_have_a_connect_server_of_its_own(setting, monkeypatch):
    from lakehouse_airflow import maintenance, runner

    monkeypatch.setattr(runner.ConnectRunner, "_environment", lambda self: {"LAKEHOUSE_SPARK_REMOTE": "sc://all:1"})
    assert type(maintenance._own_runner("connect")) is runner.ConnectRunner
    setting("MAINTENANCE_SPARK_REMOTE", "sc://own:2")
    own = maintenance._own_runner("connect")
    assert isinstance(own, maintenance.MaintenanceRunner)
    assert own._environment()["LAKEHOUSE_SPARK_REMOTE"] == "sc://own:2"
    assert not isinstance(maintenance._own_runner("submit"), maintenance.MaintenanceRunner)


def planned_but(monkeypatch, *broken: str) -> Any:
    """The plan of the daily tier, in which some datasets cannot be looked at."""
    from lakehouse.maintenance import seen
    from lakehouse_airflow.maintenance import PlanOperator

    def plans(contract: Any, *_: object) -> list[Any]:
        if not broken or contract.dataset in broken:
            raise OverflowError("date value out of range")
        return []

    monkeypatch.setattr(seen, "plans", plans)
    return PlanOperator(task_id="plan", tier="daily").execute(context("manual"))


def test_a_run_for_one_dataset_plans_for_it_alone_whatever_the_hour(setting, monkeypatch):
    from airflow.sdk.exceptions import AirflowException

    from lakehouse.maintenance import seen
    from lakehouse_airflow.maintenance import PlanOperator

    setting("MAINTENANCE_WINDOW", other_hours())
    monkeypatch.setattr(seen, "plans", lambda *_: [])
    plan = PlanOperator(task_id="plan", tier="daily")
    found = plan.execute(context("operator_triggered", dataset="silver.orders"))
    assert [one["dataset"] for one in found] == ["silver.orders"]
    with pytest.raises(AirflowException, match=r"no dataset silver\.none is of tier daily"):
        plan.execute(context(dataset="silver.none"))


class Supervisor:
    """What a task's process asks of Airflow."""

    def __init__(self, answer: Any) -> None:
        self.asked: list[Any] = []
        self.answer = answer

    def send(self, message: Any) -> Any:
        self.asked.append(message)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [None, RuntimeError("Airflow is busy")])
def test_a_table_that_should_not_wait_is_asked_for_once_and_a_refusal_fails_no_pipeline(answer, monkeypatch):
    from airflow.sdk.execution_time import task_runner

    from lakehouse.ledger import leases
    from lakehouse_airflow.operators import ReleaseOperator

    supervisor, released = Supervisor(answer), []
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    monkeypatch.setattr(leases, "release", lambda *given: released.append(len(supervisor.asked)))
    task = ReleaseOperator(task_id="release", dataset="silver.orders")
    for pulled in (None, "critical__silver_orders__7"):
        given = context()
        given["ti"].xcom_pull = lambda task_ids, found=pulled: found
        task.execute(given)
    assert released == [0, 0], "the lease is given back before maintenance is asked for"
    (asked,) = supervisor.asked
    assert (asked.dag_id, asked.run_id) == ("maintenance_daily", "critical__silver_orders__7")
    assert asked.conf == {"dataset": "silver.orders"}


def test_a_dataset_that_cannot_be_planned_for_fails_alone(monkeypatch, turns):
    from airflow.sdk.exceptions import AirflowFailException

    from lakehouse_airflow.maintenance import MaintainOperator

    found = {one["dataset"]: one for one in planned_but(monkeypatch, "silver.orders")}
    assert found["gold.daily_sales"] == {"dataset": "gold.daily_sales", "steps": [], "failed": ""}
    task = MaintainOperator(task_id="maintain", **found["silver.orders"])
    with pytest.raises(
        AirflowFailException, match=r"silver\.orders could not be planned for: OverflowError: date value"
    ):
        task.execute(context())
    assert turns == ["failed: silver.orders could not be planned for: OverflowError: date value out of range"]


def test_where_no_dataset_can_be_planned_for_the_plan_fails_and_is_retried(monkeypatch):
    from airflow.sdk.exceptions import AirflowException

    with pytest.raises(AirflowException, match=r"silver\.orders failed: OverflowError: date value out of range"):
        planned_but(monkeypatch)
