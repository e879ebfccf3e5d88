"""Deadlines: due when the contract says, silent where it says nothing, and they only make the evaluator look."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse.contracts import load
from lakehouse.naming import dag_id
from lakehouse.settings import ROOT

pytestmark = pytest.mark.usefixtures("airflow_home")
CONTRACTS = list(load(ROOT / "include/contracts").contracts.values())
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def decoded(parsed, dag: str) -> Any:
    """A DAG's deadline as the scheduler reads it from Airflow's database."""
    from airflow.serialization.decoders import decode_deadline_alert

    (alert,) = parsed["dags"][dag]["deadline"]
    return decode_deadline_alert(alert)


@pytest.mark.parametrize("contract", CONTRACTS, ids=[c.dataset for c in CONTRACTS])
def test_every_datasets_deadline_is_read_back_as_it_was_written(parsed, contract):
    found = decoded(parsed, dag_id(contract.dataset))
    interval = contract.interval_ending_by(NOON)
    assert found.reference.inner_ref.due(interval.end) == contract.due(interval)
    assert found.interval == timedelta(0)
    assert (type(found.callback).__name__, found.callback.path) == (
        "AsyncCallback",
        "lakehouse_airflow.deadlines.passed",
    )


@pytest.mark.parametrize(
    "sla", [{"ready_by": "06:30"}, {"ready_by": "02:30", "timezone": "America/New_York"}, {"ready_within": "90m"}]
)
@pytest.mark.parametrize("end", ["2026-03-29T00:00+01:00", "2026-10-25T00:00+02:00", "2026-03-08T00:00-05:00"])
def test_a_deadline_is_due_when_its_contract_is_across_daylight_saving(sla, end):
    from lakehouse.contracts.sla import Sla
    from lakehouse_airflow.deadlines import deadline

    contract = CONTRACTS[0].model_copy(update={"sla": Sla.model_validate(sla), "timezone": "Europe/Berlin"})
    moment = datetime.fromisoformat(end)
    assert deadline(contract).reference.due(moment) == contract.sla.due(moment, "Europe/Berlin")


def test_equal_promises_are_equal_deadlines_and_others_are_not():
    from lakehouse_airflow.deadlines import DueDeadline

    one, same = (DueDeadline(sla={"ready_within": "1h"}, timezone="UTC") for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    assert one != DueDeadline(sla={"ready_within": "2h"}, timezone="UTC")


@pytest.fixture
def session() -> Any:
    """A database with Airflow's own table of runs."""
    from airflow.models import DagRun
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    engine = create_engine("sqlite://")
    DagRun.__table__.create(engine)
    with Session(engine) as opened:
        yield opened


def due_of_run(session: Any, end: datetime | None, **sla: Any) -> datetime | None:
    """The deadline of a run whose interval ends then, as Airflow asks for it when it creates the run."""
    from airflow.models import DagRun
    from sqlalchemy import insert

    from lakehouse_airflow.deadlines import DueDeadline

    now = datetime.now(UTC)
    run = {"dag_id": "silver_orders", "run_id": "one", "run_type": "scheduled", "run_after": now, "state": "queued"}
    values = {"id": 1, "log_template_id": 1, "data_interval_end": end, "updated_at": now, "clear_number": 0, **run}
    session.execute(insert(DagRun.__table__).values(**values))
    return DueDeadline(sla=sla)._evaluate_with(session=session, dag_id="silver_orders", run_id="one")


def test_a_run_is_due_by_its_intervals_end(session):
    end = datetime.now(UTC) - timedelta(minutes=5)
    assert due_of_run(session, end, ready_within="1h") == end + timedelta(hours=1)


def test_a_run_of_the_past_has_no_deadline(session):
    assert due_of_run(session, datetime.now(UTC) - timedelta(days=1), ready_within="1h") is None


def test_a_run_without_an_interval_has_no_deadline(session):
    assert due_of_run(session, None, ready_within="1h") is None


def test_what_is_wrong_with_a_deadline_never_keeps_a_run_from_being_created(session):
    assert due_of_run(session, datetime.now(UTC), ready_within="when it suits") is None


def test_many_deadlines_at_one_moment_are_two_looks_at_most(monkeypatch):
    """One that runs, and one for all who came meanwhile: what it sees is as new as their deadlines."""
    from lakehouse_airflow import deadlines

    begun, go, looks = threading.Event(), threading.Event(), []

    def look() -> str:
        looks.append(1)
        begun.set()
        go.wait()
        return f"look {len(looks)}"

    monkeypatch.setattr(deadlines, "_look", look)

    async def all_passed() -> list[str]:
        first = asyncio.create_task(deadlines.passed())
        await asyncio.to_thread(begun.wait)
        others = [asyncio.create_task(deadlines.passed()) for _ in range(9)]
        await asyncio.sleep(0)
        others[0].cancel()
        go.set()
        return await asyncio.gather(first, *others[1:])

    assert asyncio.run(all_passed()) == ["look 1", *["look 2"] * 8]
