"""Operators: what they promise without any service behind them."""

from __future__ import annotations

from contextlib import nullcontext
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
