"""The operators of the maintenance DAGs: what they promise without any service behind them."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.settings import settings

pytestmark = pytest.mark.usefixtures("airflow_home")


def context(run_type: str = "scheduled") -> Any:
    run = SimpleNamespace(run_type=run_type, conf={})
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


def test_a_dataset_that_is_being_written_is_skipped_not_failed(monkeypatch):
    from airflow.sdk.exceptions import AirflowSkipException

    from lakehouse.maintenance import carried_out
    from lakehouse_airflow.maintenance import MaintainOperator

    def busy(*_: object) -> None:
        raise carried_out.LeaseHeld("silver.orders is being written by a run")

    monkeypatch.setattr(carried_out, "carry_out", busy)
    task = MaintainOperator(task_id="maintain", dataset="silver.orders", steps=[])
    with pytest.raises(AirflowSkipException, match=r"put off: silver\.orders is being written by a run"):
        task.execute(context())


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
    from lakehouse.ledger import database
    from lakehouse.maintenance import seen
    from lakehouse_airflow.maintenance import PlanOperator

    def plans(contract: Any, *_: object) -> list[Any]:
        if not broken or contract.dataset in broken:
            raise OverflowError("date value out of range")
        return []

    monkeypatch.setattr(database, "now", lambda: datetime.now(UTC))
    monkeypatch.setattr(seen, "plans", plans)
    return PlanOperator(task_id="plan", tier="daily").execute(context("manual"))


def test_a_dataset_that_cannot_be_planned_for_fails_alone(monkeypatch):
    from airflow.sdk.exceptions import AirflowFailException

    from lakehouse_airflow.maintenance import MaintainOperator

    found = {one["dataset"]: one for one in planned_but(monkeypatch, "silver.orders")}
    assert found["gold.daily_sales"] == {"dataset": "gold.daily_sales", "steps": [], "failed": ""}
    task = MaintainOperator(task_id="maintain", **found["silver.orders"])
    with pytest.raises(
        AirflowFailException, match=r"silver\.orders could not be planned for: OverflowError: date value"
    ):
        task.execute(context())


def test_where_no_dataset_can_be_planned_for_the_plan_fails_and_is_retried(monkeypatch):
    from airflow.sdk.exceptions import AirflowException

    with pytest.raises(AirflowException, match=r"silver\.orders failed: OverflowError: date value out of range"):
        planned_but(monkeypatch)
