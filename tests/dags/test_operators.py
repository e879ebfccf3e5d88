"""Operators, sensors and triggers: what they promise without any service behind them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import LakehouseError

pytestmark = pytest.mark.usefixtures("airflow_home")
DAY = "2026-01-01T00:00:00+00:00/2026-01-02T00:00:00+00:00"


def context(start: datetime | None, end: datetime | None) -> Any:
    run = SimpleNamespace(data_interval_start=start, data_interval_end=end)
    task = SimpleNamespace(dag_id="bronze_orders", run_id="scheduled__2026-01-01", try_number=2)
    return {"dag_run": run, "ti": task}


FIRST = context(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("LandingTrigger", {"prefix": "orders/2026-01-01/", "marker": "_SUCCESS"}),
        ("CoverageTrigger", {"datasets": ["bronze.orders"], "interval": DAY}),
        ("LeaseTrigger", {"dataset": "silver.orders", "owner": "run"}),
    ],
)
def test_a_trigger_arrives_in_the_triggerer_as_it_was_sent(name, given):
    from lakehouse_airflow import triggers

    place, arguments = getattr(triggers, name)(**given).serialize()
    module, _, kind = place.rpartition(".")
    again = getattr(import_module(module), kind)(**arguments)
    assert arguments == given
    assert again.serialize() == (place, arguments)
    told = again.awaited()
    assert all(str(part) in told for part in given.values() if part not in (["bronze.orders"], "run"))


def test_a_trigger_asks_again_when_the_answer_is_no_or_the_service_does_not_answer(monkeypatch):
    from lakehouse_airflow import triggers

    monkeypatch.setattr(triggers, "SHORTEST_WAIT", 0.0)
    answers = iter([False, ConnectionError("the catalog does not answer"), False, True])

    class Asked(triggers.PollingTrigger):
        def serialize(self) -> tuple[str, dict[str, Any]]:
            return "", {}

        def awaited(self) -> str:
            return "something"

        def ready(self) -> bool:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

    async def event() -> Any:
        return await anext(aiter(Asked().run()))

    assert asyncio.run(event()).payload == {"ready": "something"}
    assert list(answers) == []


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


def test_a_wait_on_a_store_that_does_not_answer_is_handed_to_the_triggerer(monkeypatch):
    from airflow.sdk.exceptions import TaskDeferred

    from lakehouse import store
    from lakehouse.settings import settings
    from lakehouse_airflow.sensors import WaitOperator

    monkeypatch.setenv("LAKEHOUSE_S3_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("LAKEHOUSE_S3_ACCESS_KEY", "nobody")
    monkeypatch.setenv("LAKEHOUSE_S3_SECRET_KEY", "nothing")
    settings.cache_clear()
    store.client.cache_clear()
    try:
        with pytest.raises(TaskDeferred) as deferred:
            WaitOperator(task_id="wait", dataset="bronze.orders").execute(FIRST)
    finally:
        store.client.cache_clear()
    assert deferred.value.trigger.serialize()[1] == {"prefix": "orders/2026-01-01/", "marker": "_SUCCESS"}
