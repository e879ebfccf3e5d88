"""Operators, sensors and triggers: what they promise without any service behind them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from lakehouse.errors import LakehouseError
from lakehouse.settings import ROOT, settings

pytestmark = pytest.mark.usefixtures("airflow_home")
DAY = "2026-01-01T00:00:00+00:00/2026-01-02T00:00:00+00:00"


def context(start: datetime | None, end: datetime | None) -> Any:
    run = SimpleNamespace(data_interval_start=start, data_interval_end=end)
    task = SimpleNamespace(dag_id="bronze_orders", run_id="scheduled__2026-01-01", try_number=2)
    return {"dag_run": run, "ti": task}


FIRST = context(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
LANDING = {"prefix": "orders/2026-01-01/", "way": {"marker": "_SUCCESS"}, "end": "2026-01-02T00:00:00+00:00"}


def received(trigger: Any) -> Any:
    """The trigger as the triggerer makes it from what Airflow's database holds."""
    place, arguments = trigger.serialize()
    module, _, kind = place.rpartition(".")
    return getattr(import_module(module), kind)(**json.loads(json.dumps(arguments)))


def first_event(trigger: Any) -> Any:
    async def event() -> Any:
        return await anext(aiter(trigger.run()))

    return asyncio.run(event()).payload


@pytest.fixture
def folder_answers(monkeypatch) -> Callable[..., list[tuple[Any, ...]]]:
    """Landing folders that answer so, one call after the other; returns what was asked."""
    from lakehouse import landing
    from lakehouse_airflow import triggers

    def answering(*answers: str | Exception | None) -> list[tuple[Any, ...]]:
        coming, asked = iter(answers), []

        def awaited(*question: Any) -> str | None:
            asked.append(question)
            answer = next(coming)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(landing, "awaited", awaited)
        monkeypatch.setattr(triggers, "SHORTEST_WAIT", 0.0)
        return asked

    return answering


@pytest.mark.parametrize(
    ("name", "given", "awaited"),
    [
        ("LandingTrigger", LANDING, "landing/orders/2026-01-01/"),
        ("CoverageTrigger", {"datasets": ["bronze.orders"], "interval": DAY}, f"bronze.orders to hold {DAY}"),
        ("LeaseTrigger", {"dataset": "silver.orders", "owner": "run"}, "the lease of silver.orders"),
    ],
)
def test_a_trigger_arrives_in_the_triggerer_as_it_was_sent(name, given, awaited):
    from lakehouse_airflow import triggers

    sent = getattr(triggers, name)(**given)
    again = received(sent)
    assert again.serialize() == sent.serialize()
    assert again.serialize()[1] == given
    assert again.awaited() == awaited


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

    assert first_event(Asked()) == {"ready": "something"}
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
    from lakehouse_airflow.sensors import WaitOperator

    monkeypatch.setenv("LAKEHOUSE_S3_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("LAKEHOUSE_S3_ACCESS_KEY", "nobody")
    monkeypatch.setenv("LAKEHOUSE_S3_SECRET_KEY", "nothing")
    settings.cache_clear()
    store._client.cache_clear()
    try:
        with pytest.raises(TaskDeferred) as deferred:
            WaitOperator(task_id="wait", dataset="bronze.orders").execute(FIRST)
    finally:
        store._client.cache_clear()
    assert deferred.value.trigger.serialize()[1] == LANDING


@pytest.mark.parametrize("way", ["marker: _SUCCESS", "manifest: files.json", "quiet: 90s"])
def test_the_triggerer_asks_as_the_contract_says_and_needs_no_contracts(way, folder_answers, tmp_path, monkeypatch):
    from airflow.sdk.exceptions import TaskDeferred

    from lakehouse.contracts.fields import Ready
    from lakehouse_airflow.sensors import WaitOperator

    shutil.copytree(ROOT / "include/contracts", tmp_path / "contracts")
    orders = tmp_path / "contracts/bronze/orders.yaml"
    orders.write_text(orders.read_text().replace("marker: _SUCCESS", way))
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path / "contracts"))
    settings.cache_clear()
    asked = folder_answers("something", None)
    with pytest.raises(TaskDeferred) as deferred:
        WaitOperator(task_id="wait", dataset="bronze.orders").execute(FIRST)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", "/none")
    settings.cache_clear()
    assert first_event(received(deferred.value.trigger)) == {"ready": "landing/orders/2026-01-01/"}
    ready = Ready.model_validate(yaml.safe_load(way))
    assert asked == [("orders/2026-01-01/", ready, datetime(2026, 1, 2, tzinfo=UTC))] * 2


def test_a_wait_says_what_is_missing_each_time_it_asks(folder_answers, capfd):
    from lakehouse_airflow.triggers import LandingTrigger

    folder_answers("2 of 7 files", ConnectionError("the store does not answer"), "1 of 7 files", None)
    assert first_event(LandingTrigger(**LANDING)) == {"ready": "landing/orders/2026-01-01/"}
    log = "".join(capfd.readouterr())
    told = re.findall(r"waiting for .* files(?= since)|the store .* again", log)
    assert told == ["waiting for 2 of 7 files", "the store does not answer; asking again", "waiting for 1 of 7 files"]


def test_a_folder_that_waiting_will_not_mend_fails_the_wait_at_once(folder_answers):
    from airflow.sdk.exceptions import AirflowFailException

    from lakehouse.landing import LandingError
    from lakehouse_airflow.sensors import WaitOperator

    folder_answers(LandingError("manifest.json is no manifest"))
    with pytest.raises(AirflowFailException, match=r"^manifest.json is no manifest$"):
        WaitOperator(task_id="wait", dataset="bronze.orders").execute(FIRST)


def test_a_folder_that_goes_wrong_during_the_wait_fails_it_with_the_same_sentence(folder_answers):
    from airflow.sdk.exceptions import AirflowFailException

    from lakehouse.landing import LandingError
    from lakehouse_airflow.sensors import WaitOperator
    from lakehouse_airflow.triggers import LandingTrigger

    folder_answers("manifest.json", LandingError("manifest.json is no manifest"))
    event = first_event(LandingTrigger(**LANDING))
    with pytest.raises(AirflowFailException, match=r"^manifest.json is no manifest$"):
        WaitOperator(task_id="wait", dataset="bronze.orders").resume(FIRST, event)
