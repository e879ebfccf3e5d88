"""The wait step and its triggers: what they promise without any service behind them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
import yaml

from lakehouse.settings import ROOT, settings
from tests.dags.test_operators import DAY, FIRST, context

pytestmark = pytest.mark.usefixtures("airflow_home")

LANDING = {
    "path": "orders/{interval:%Y-%m-%d}/",
    "timezone": "UTC",
    "ready": {"marker": "_SUCCESS"},
    "interval": DAY,
}


@pytest.fixture(autouse=True)
def no_rest(monkeypatch):
    from lakehouse_airflow import polling

    monkeypatch.setattr(polling, "SHORTEST_WAIT", 0.0)


def received(trigger: Any) -> Any:
    """The trigger as the triggerer makes it from what Airflow's database holds."""
    place, arguments = trigger.serialize()
    module, _, kind = place.rpartition(".")
    return getattr(import_module(module), kind)(**json.loads(json.dumps(arguments)))


def first_event(trigger: Any) -> Any:
    async def event() -> Any:
        return await anext(aiter(trigger.run()))

    return asyncio.run(event()).payload


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


@pytest.fixture
def asking() -> type:
    """Waits whose answers a test gives; `asked` counts how often that was."""
    from lakehouse_airflow.triggers import Waiting

    class Asking(Waiting):
        service = "test"
        longest_rest = 0.01
        answers: Any = None
        asked = 0

        def __init__(self, about: str = "it", least: int = 0) -> None:
            super().__init__()
            self.about, self.least = about, least

        def serialize(self) -> tuple[str, dict[str, Any]]:
            return "", {"about": self.about, "least": self.least}

        def question(self) -> tuple[str, ...]:
            return (self.about,)

        def ask(self) -> Any:
            type(self).asked += 1
            answer = next(type(self).answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        def missing(self, answer: int) -> str | None:
            return None if answer >= self.least else f"{self.least - answer} more"

        def awaited(self) -> str:
            return f"{self.about} to be {self.least}"

    return Asking


@pytest.mark.parametrize(
    ("name", "given", "awaited"),
    [
        ("LandingTrigger", LANDING, "landing/orders/2026-01-01/"),
        ("CoverageTrigger", {"dataset": "bronze.orders", "interval": DAY}, f"bronze.orders to hold {DAY}"),
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


def test_a_trigger_asks_again_when_the_answer_is_no_or_the_service_does_not_answer(asking):
    import requests

    from lakehouse.catalog import CatalogUnreachable

    no_answers = [CatalogUnreachable("it does not answer"), requests.ReadTimeout("too slow"), TimeoutError()]
    asking.answers = iter([0, *no_answers, 0, 1])
    assert first_event(asking(least=1)) == {"ready": "it to be 1"}
    assert list(asking.answers) == []


def test_fifty_who_wait_for_the_same_ask_once_and_each_gets_its_own_answer(asking):
    """By the very streams that the triggerer runs such triggers with."""
    from airflow.triggers.shared_stream import SharedStreamManager

    asking.answers = iter(range(1000))
    waiting = [asking(least=number % 5) for number in range(50)]

    async def event(manager: Any, number: int) -> Any:
        trigger, key = waiting[number], waiting[number].shared_stream_key()
        stream = manager.subscribe(trigger_id=number, trigger=trigger, key=key)
        found = await anext(aiter(trigger.filter_shared_stream(stream)))
        await manager.unsubscribe(number, key)
        return found.payload

    async def all_events() -> list[Any]:
        manager = SharedStreamManager()
        found = await asyncio.gather(*(event(manager, number) for number in range(50)))
        assert manager._groups == {}, "nobody asks when nobody waits"
        return found

    assert asyncio.run(all_events()) == [{"ready": f"it to be {number % 5}"} for number in range(50)]
    assert asking.asked <= 10


def test_somebody_new_does_not_wait_until_those_before_have_rested(asking, monkeypatch):
    from airflow.triggers.shared_stream import SharedStreamManager

    from lakehouse_airflow import polling

    monkeypatch.setattr(polling, "SHORTEST_WAIT", 0.01)
    monkeypatch.setattr(polling, "GROWTH", 1e6)
    asking.longest_rest = 3600.0
    asking.answers = iter([0, 0, 1, 1])

    async def joined() -> Any:
        manager = SharedStreamManager()
        old, new = asking(least=9), asking(least=1)
        key = old.shared_stream_key()
        streams = [manager.subscribe(trigger_id=n, trigger=old, key=key) for n in (1, 2)]
        waits = asyncio.create_task(anext(aiter(old.filter_shared_stream(streams[0]))))
        while asking.asked < 2:  # now it rests for an hour
            await asyncio.sleep(0.01)
        found = await asyncio.wait_for(anext(aiter(new.filter_shared_stream(streams[1]))), 30)
        waits.cancel()
        await manager.stop_all()
        return found.payload

    assert asyncio.run(joined()) == {"ready": "it to be 1"}


def test_only_those_who_ask_the_same_share_a_question():
    from lakehouse_airflow.triggers import CoverageTrigger, LandingTrigger, LeaseTrigger

    later = DAY.replace("-01-0", "-02-0")
    orders = CoverageTrigger("bronze.orders", DAY).shared_stream_key()
    assert CoverageTrigger("bronze.orders", later).shared_stream_key() == orders
    others = [
        CoverageTrigger("bronze.clicks", DAY),
        LeaseTrigger("bronze.orders", "run"),
        LandingTrigger(**LANDING),
        LandingTrigger(**{**LANDING, "interval": later}),
        LandingTrigger(**{**LANDING, "ready": {"marker": "_DONE"}}),
    ]
    assert len({orders, *(one.shared_stream_key() for one in others)}) == 6


def test_a_question_is_asked_less_and_less_often_until_somebody_new_waits_for_it(monkeypatch):
    from lakehouse_airflow import polling

    rests: list[float] = []

    async def slept(seconds: float) -> None:
        rests[-1] += seconds

    async def timed_out(hurry: Any, seconds: float) -> None:
        hurry.close()
        if not pace._hurry.is_set():
            rests[-1] += seconds
            raise TimeoutError

    monkeypatch.setattr(polling, "SHORTEST_WAIT", 2.0)
    monkeypatch.setattr(polling, "JITTER", 0.0)
    monkeypatch.setattr(polling.asyncio, "sleep", slept)
    monkeypatch.setattr(polling.asyncio, "wait_for", timed_out)
    pace = polling.Pace(longest=10.0)

    def rest() -> float:
        rests.append(0.0)
        asyncio.run(pace.rest())
        return rests[-1]

    assert [rest() for _ in range(6)] == [2.0, 3.0, 4.5, 6.75, 10.0, 10.0]
    pace.quicken()
    assert [rest() for _ in range(3)] == [2.0, 3.0, 4.5]


def test_waits_of_one_question_have_one_pace_and_it_is_forgotten_with_them():
    from lakehouse_airflow import polling

    one = polling.pace(("a", "question"), 15.0)
    assert polling.pace(("a", "question"), 15.0) is one
    assert polling.pace(("another",), 15.0) is not one
    del one
    assert ("a", "question") not in polling._PACES


def test_a_service_that_hangs_keeps_no_other_from_being_asked():
    """More questions hang than any pool of threads has room for; another service is asked none the less."""
    import threading

    from lakehouse_airflow import polling

    hangs = threading.Event()

    async def other_is_answered() -> Any:
        stuck = [asyncio.create_task(polling.asked("hangs", hangs.wait)) for _ in range(40)]
        await asyncio.sleep(0)  # all of them are asked
        try:
            return await asyncio.wait_for(polling.asked("answers", lambda: "here"), 30)
        finally:
            hangs.set()
            await asyncio.gather(*stuck)

    assert asyncio.run(other_is_answered()) == "here"
    assert polling._threads("hangs")._max_workers == polling.THREADS


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
