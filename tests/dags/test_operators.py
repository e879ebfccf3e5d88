"""Operators: what they promise without any service behind them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from tests.dags.runs import DAY, FIRST, context

pytestmark = pytest.mark.usefixtures("airflow_home")


def test_a_run_owns_the_interval_that_airflow_gives_it():
    from lakehouse_airflow.operators import interval_of

    assert str(interval_of(FIRST)) == DAY


def test_a_run_that_owns_no_interval_fails_at_once_and_says_what_to_do():
    from airflow.sdk.exceptions import AirflowFailException

    from lakehouse_airflow.operators import interval_of

    with pytest.raises(AirflowFailException, match="owns no interval; trigger it with a logical date"):
        interval_of(context(None, None))


def test_each_try_of_a_run_has_an_id_of_its_own():
    from lakehouse_airflow.operators import attempt_of

    found = attempt_of(FIRST)
    assert (found.run, found.number) == ("bronze_orders/scheduled__2026-01-01", 2)


def test_a_failed_gate_is_not_retried_and_other_known_errors_are():
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    from lakehouse.steps import GateFailed
    from lakehouse_airflow.operators import one_sentence

    with pytest.raises(AirflowFailException, match=r"^too few rows$"), one_sentence():
        raise GateFailed("too few rows")
    with pytest.raises(AirflowException, match=r"^the store does not answer$") as told, one_sentence():
        raise LakehouseError("the store does not answer")
    assert not isinstance(told.value, AirflowFailException)
    assert told.value.__suppress_context__


@pytest.fixture
def form() -> Any:
    """A run of the rollback's form, and its operator."""
    from lakehouse_airflow.forms import RollbackOperator

    asked = {"dataset": "silver.orders", "to": "before", "why": "bad day", "apply": False}
    run = SimpleNamespace(conf={}, triggering_user_name="ada")
    return RollbackOperator(task_id="rollback"), {**FIRST, "dag_run": run, "params": asked}


def test_a_form_acts_on_its_dataset_for_who_sent_it(form, monkeypatch):
    operator, sent = form
    called: list[Any] = []
    monkeypatch.setattr("lakehouse.steps.leased", lambda dataset, attempt: nullcontext(called.append(dataset)))
    monkeypatch.setattr(type(operator), "act", lambda _, form, who, attempt: called.extend((form["to"], who)) or [])
    operator.execute(sent)
    assert called == ["silver.orders", "before", "ada"]


def test_a_form_waits_for_the_lease_without_a_worker(form, monkeypatch):
    from airflow.sdk.exceptions import TaskDeferred

    from lakehouse.steps import LeaseHeld

    def held(dataset: str, attempt: Any) -> Any:
        raise LeaseHeld(f"{dataset} is being written")

    operator, sent = form
    monkeypatch.setattr("lakehouse.steps.leased", held)
    with pytest.raises(TaskDeferred) as waits:
        operator.execute(sent)
    assert waits.value.trigger.serialize()[1] == {
        "dataset": "silver.orders",
        "owner": "bronze_orders/scheduled__2026-01-01",
    }


REPLAY = {"dataset": "silver.orders", "action": "replay", "reason": None, "interval": None, "why": "mended"}


@pytest.fixture
def sent(monkeypatch) -> Callable[..., list[Any]]:
    """What the form of replay asks for, sent by Ada: whose records, and which."""
    from lakehouse_airflow.forms import ResolveOperator

    asked: list[Any] = []

    def resolve(contract: Any, chosen: Any, attempt: Any, run: Any) -> dict[str, int]:
        asked.extend((contract.dataset, chosen, attempt.run))
        return {"rows_in": 0}

    def send(**filled: Any) -> list[Any]:
        run = SimpleNamespace(conf={}, triggering_user_name="ada")
        ResolveOperator(task_id="resolve").execute({**FIRST, "dag_run": run, "params": {**REPLAY, **filled}})
        return asked

    monkeypatch.setattr("lakehouse.steps.leased", lambda *_: nullcontext())
    monkeypatch.setattr("lakehouse.quarantine.resolve", resolve)
    return send


@pytest.mark.parametrize(
    ("filled", "resolution", "reason", "start"),
    [
        ({}, "replayed", None, None),
        ({"reason": "", "interval": ""}, "replayed", None, None),
        ({"interval": "2026-01-01T02:00:00+02:00"}, "replayed", None, datetime(2026, 1, 1, tzinfo=UTC)),
        ({"action": "discard", "reason": "amount.check"}, "discarded", "amount.check", None),
    ],
)
def test_the_form_of_replay_asks_for_what_is_filled_in(sent, filled, resolution, reason, start):
    from lakehouse.jobs import Chosen

    chosen = Chosen(resolution=resolution, by="ada", why="mended", reason=reason, interval_start=start)
    assert sent(**filled) == ["silver.orders", chosen, "bronze_orders/scheduled__2026-01-01"]


def test_the_form_of_replay_takes_an_interval_with_its_zone_alone():
    from airflow.sdk.exceptions import ParamValidationError

    from lakehouse_airflow.forms import build_replay

    form = build_replay()
    assert form is not None
    interval = form.params.get_param("interval")
    assert interval.resolve("2026-01-01T00:00:00Z") == "2026-01-01T00:00:00Z"
    with pytest.raises(ParamValidationError, match="is not a 'date-time'"):
        interval.resolve("2026-01-01T00:00:00")
