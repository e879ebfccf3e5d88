"""The wait step and its triggers: what they promise without any service behind them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from lakehouse.settings import ROOT, settings
from tests.dags.runs import DAY, FIRST, context
from tests.dags.waits import LANDING, first_event, received

pytestmark = pytest.mark.usefixtures("airflow_home")


@pytest.fixture(autouse=True)
def no_rest(monkeypatch):
    from lakehouse_airflow import polling

    monkeypatch.setattr(polling, "SHORTEST_WAIT", 0.0)


def wait_of(dataset: str) -> Any:
    """The wait step of a dataset's DAG."""
    from lakehouse.contracts import contract
    from lakehouse_airflow.sensors import WaitOperator

    return WaitOperator(task_id="wait", contract=contract(dataset))


@pytest.fixture
def folder_answers(monkeypatch) -> Callable[..., list[tuple[Any, ...]]]:
    """Landing folders that answer so, one call after the other; returns what was asked."""
    from lakehouse import landing

    def answering(*answers: str | Exception | None) -> list[tuple[Any, ...]]:
        coming, asked = iter(answers), []

        def awaited(*question: Any) -> str | None:
            asked.append(question)
            answer = next(coming)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(landing, "awaited", awaited)
        return asked

    return answering


def test_airflow_starts_the_wait_itself_and_fills_in_the_runs_interval(parsed):
    """What the scheduler hands to the triggerer, from the DAG as Airflow keeps it."""
    from lakehouse_airflow.sensors import OWN_INTERVAL

    wait = next(t["__var"] for t in parsed["dags"]["bronze_orders"]["tasks"] if t["__var"]["task_id"] == "wait")
    assert wait["start_from_trigger"] is True
    assert wait["template_fields"] == ["interval"]
    started = wait["start_trigger_args"]
    assert started["trigger_cls"] == "lakehouse_airflow.triggers.LandingTrigger"
    assert started["next_method"] == "resume"
    assert started["timeout"] == timedelta(days=3).total_seconds()
    assert started["trigger_kwargs"]["__var"]["interval"] == OWN_INTERVAL


def test_a_run_that_owns_no_interval_ends_its_wait_at_once_and_says_what_to_do():
    from airflow.sdk.exceptions import AirflowFailException

    from lakehouse_airflow.triggers import CoverageTrigger

    trigger = CoverageTrigger("bronze.orders", "None/None")
    assert trigger.shared_stream_key() is None
    with pytest.raises(AirflowFailException, match="owns no interval; trigger it with a logical date"):
        wait_of("silver.orders").resume(context(None, None), first_event(trigger))


def test_since_when_a_task_waits_is_known_to_a_triggerer_that_was_started_later(folder_answers, capfd):
    from lakehouse_airflow.triggers import WAIT_TIMEOUT, LandingTrigger

    folder_answers("something", None)
    trigger = LandingTrigger(**LANDING)
    trigger.timeout_after = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) + WAIT_TIMEOUT
    first_event(trigger)
    assert "waiting for something since 2026-01-02T03:04:05+00:00" in "".join(capfd.readouterr())


def test_one_who_waited_in_vain_is_not_retried():
    from airflow.sdk.exceptions import AirflowFailException

    given = ("__fail__", {"error": "Trigger timeout"}, FIRST)
    with pytest.raises(AirflowFailException, match=r"^waited 3d in vain; once the input is there, clear this task$"):
        wait_of("silver.orders").resume_execution(*given)


def test_a_dataset_of_several_inputs_waits_for_one_after_the_other(monkeypatch):
    from airflow.sdk.exceptions import TaskDeferred

    from lakehouse import coverages
    from lakehouse.contracts import contract
    from lakehouse.intervals import Coverage, Interval

    held = {"silver.orders": Coverage.of([Interval.parse(DAY)]), "silver.customers": Coverage()}
    monkeypatch.setattr(coverages, "held", held.__getitem__)
    several = contract("gold.daily_sales").model_copy(update={"reads": ("silver.orders", "silver.customers")})
    wait = wait_of("gold.daily_sales")
    wait.of = several
    assert wait.start_trigger_args.trigger_kwargs["dataset"] == "silver.orders"
    with pytest.raises(TaskDeferred) as deferred:
        wait.resume(FIRST, {"ready": "silver.orders"})
    assert deferred.value.trigger.serialize()[1] == {"dataset": "silver.customers", "interval": DAY}
    assert wait.resume(FIRST, {"ready": "silver.customers"}, **deferred.value.kwargs) is None


@pytest.mark.usefixtures("no_backoff")
def test_a_wait_on_a_store_that_does_not_answer_is_handed_to_the_triggerer(monkeypatch):
    from airflow.sdk.exceptions import TaskDeferred

    from lakehouse import store

    monkeypatch.setenv("LAKEHOUSE_S3_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("LAKEHOUSE_S3_ACCESS_KEY", "nobody")
    monkeypatch.setenv("LAKEHOUSE_S3_SECRET_KEY", "nothing")
    settings.cache_clear()
    store._client.cache_clear()
    try:
        with pytest.raises(TaskDeferred) as deferred:
            wait_of("bronze.orders").execute(FIRST)
    finally:
        store._client.cache_clear()
    assert deferred.value.trigger.serialize()[1] == LANDING


@pytest.mark.parametrize("way", ["marker: _SUCCESS", "manifest: files.json", "quiet: 90s"])
def test_the_triggerer_asks_as_the_contract_says_and_needs_no_contracts(way, folder_answers, tmp_path, monkeypatch):
    from airflow.sdk.exceptions import TaskDeferred

    from lakehouse.contracts.fields import Ready

    shutil.copytree(ROOT / "include/contracts", tmp_path / "contracts")
    orders = tmp_path / "contracts/bronze/orders.yaml"
    orders.write_text(orders.read_text().replace("marker: _SUCCESS", way))
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path / "contracts"))
    settings.cache_clear()
    asked = folder_answers("something", None)
    with pytest.raises(TaskDeferred) as deferred:
        wait_of("bronze.orders").execute(FIRST)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", "/none")
    settings.cache_clear()
    assert first_event(received(deferred.value.trigger)) == {"ready": "landing/orders/2026-01-01/"}
    ready = Ready.model_validate(yaml.safe_load(way))
    assert asked == [("orders/2026-01-01/", ready, datetime(2026, 1, 2, tzinfo=UTC))] * 2


def test_a_wait_says_what_is_missing_when_that_changes(folder_answers, capfd):
    from lakehouse_airflow.triggers import LandingTrigger

    gone = ConnectionError("the store does not answer")
    folder_answers("2 of 7 files", "2 of 7 files", gone, gone, "1 of 7 files", None)
    assert first_event(LandingTrigger(**LANDING)) == {"ready": "landing/orders/2026-01-01/"}
    log = "".join(capfd.readouterr())
    told = re.findall(r"waiting for . of 7 files(?= since 2)|the store .* again", log)
    assert told == ["waiting for 2 of 7 files", "the store does not answer; asking again", "waiting for 1 of 7 files"]


def test_a_folder_that_waiting_will_not_mend_fails_the_wait_at_once(folder_answers):
    from airflow.sdk.exceptions import AirflowFailException

    from lakehouse.landing import LandingError

    folder_answers(LandingError("manifest.json is no manifest"))
    with pytest.raises(AirflowFailException, match=r"^manifest.json is no manifest$"):
        wait_of("bronze.orders").execute(FIRST)


def test_a_folder_that_goes_wrong_during_the_wait_fails_it_with_the_same_sentence(folder_answers):
    from airflow.sdk.exceptions import AirflowFailException

    from lakehouse.landing import LandingError
    from lakehouse_airflow.triggers import LandingTrigger

    folder_answers("manifest.json", LandingError("manifest.json is no manifest"))
    event = first_event(LandingTrigger(**LANDING))
    with pytest.raises(AirflowFailException, match=r"^manifest.json is no manifest$"):
        wait_of("bronze.orders").resume(FIRST, event)
