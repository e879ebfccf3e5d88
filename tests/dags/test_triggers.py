"""Triggers: how questions are asked, shared and paced, without any service behind them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.dags.runs import DAY
from tests.dags.waits import LANDING, first_event, received

pytestmark = pytest.mark.usefixtures("airflow_home")


@pytest.fixture(autouse=True)
def no_rest(monkeypatch):
    from lakehouse_airflow import polling

    monkeypatch.setattr(polling, "SHORTEST_WAIT", 0.0)


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
        (
            "LeaseTrigger",
            {"dataset": "silver.orders", "owner": "run", "until": "2026-01-01T00:00:00+00:00"},
            "the lease of silver.orders",
        ),
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


@pytest.mark.parametrize(
    ("until", "waits"), [("", True), ("2999-01-01T00:00+00:00", True), ("2026-01-01T00:00+00:00", False)]
)
def test_who_waits_for_a_lease_until_a_time_waits_no_longer(until, waits):
    from lakehouse.ledger.leases import Lease
    from lakehouse_airflow.triggers import LeaseTrigger

    held = Lease("silver.orders", "another run", "another run#1", datetime(2999, 1, 1, tzinfo=UTC))
    assert (LeaseTrigger("silver.orders", "a run", until).missing(held) is not None) is waits
