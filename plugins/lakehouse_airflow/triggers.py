"""Triggers: what the triggerer asks while a task waits without a worker slot.

All that ask the same share one poll, by Airflow's shared streams: fifty runs that wait for one table cost the catalog
as much as one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Hashable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from lakehouse_airflow.polling import Hopeless, Unanswered, asked, pace

WAIT_TIMEOUT = timedelta(days=3)
LEASE_TIMEOUT = timedelta(hours=6)
# What is awaited is told when it changes, and this often.
TOLD_EVERY = timedelta(minutes=10)
NO_INTERVAL = "this run owns no interval; trigger it with a logical date, or backfill it"


class Waiting(BaseEventTrigger):
    """Waits for an answer; whoever waits for the same one shares the question."""

    service: ClassVar[str]
    timeout: ClassVar[timedelta] = WAIT_TIMEOUT
    longest_rest: ClassVar[float] = 15.0

    @abstractmethod
    def question(self) -> tuple[str, ...]:
        """What is asked: equal questions are asked once."""

    @abstractmethod
    def ask(self) -> Any:
        """Ask it. Runs in a thread; an `OSError` means that there was no answer."""

    @abstractmethod
    def missing(self, answer: Any) -> str | None:
        """What this trigger still waits for after the answer; None when it has come."""

    @abstractmethod
    def awaited(self) -> str:
        """What this trigger waits for, in all."""

    def hopeless(self) -> str | None:
        """Why no answer could end the wait."""
        return None

    def shared_stream_key(self) -> Hashable | None:
        return None if self.hopeless() else (type(self).__name__, *self.question())

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """Answers to the question that these arguments make, for as long as somebody waits."""
        asking = cls(**kwargs)
        at_pace = pace(asking.shared_stream_key(), cls.longest_rest)
        while True:
            yield await asked(cls.service, asking.ask)
            await at_pace.rest()

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """The event that ends the wait; until then the log says what is awaited and since when."""
        at_pace = pace(self.shared_stream_key(), self.longest_rest)
        at_pace.quicken()
        told, told_at = "", datetime.min.replace(tzinfo=UTC)
        async for answer in shared_stream:
            if isinstance(answer, Hopeless):
                yield TriggerEvent({"error": answer.why})
                return
            missing = answer.why if isinstance(answer, Unanswered) else self.missing(answer)
            if missing is None:
                yield TriggerEvent({"ready": self.awaited()})
                return
            if missing != told or datetime.now(UTC) - told_at > TOLD_EVERY:
                self._tell(answer, missing)
                told, told_at = missing, datetime.now(UTC)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same without sharing: how it runs outside of a triggerer, and where there is nothing to ask."""
        if why := self.hopeless():
            yield TriggerEvent({"error": why})
            return
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event

    def since(self) -> datetime:
        """When the task began to wait: known from its timeout, also to a triggerer that was started later."""
        ends: datetime | None = getattr(self, "timeout_after", None)
        return ends - self.timeout if ends else datetime.now(UTC)

    def _tell(self, answer: Any, missing: str) -> None:
        since = self.since().astimezone(UTC).isoformat(timespec="seconds")
        if isinstance(answer, Unanswered):
            self.log.warning("%s; asking again, waiting for %s since %s", missing, self.awaited(), since)
        else:
            self.log.info("waiting for %s since %s", missing, since)


class IntervalTrigger(Waiting):
    """Waits for something of one interval, told as two times with a slash between, or as None/None."""

    interval: str

    def hopeless(self) -> str | None:
        return NO_INTERVAL if "None" in self.interval else None

    def of(self) -> Any:
        """The interval."""
        from lakehouse.intervals import Interval

        return Interval.parse(self.interval)


class LandingTrigger(IntervalTrigger):
    """The landing folder of an interval is complete, in the way that its contract has said."""

    service = "store"

    def __init__(self, path: str, timezone: str, ready: dict[str, str], interval: str) -> None:
        super().__init__()
        self.path, self.timezone, self.ready, self.interval = path, timezone, ready, interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        given = {"path": self.path, "timezone": self.timezone, "ready": self.ready, "interval": self.interval}
        return "lakehouse_airflow.triggers.LandingTrigger", given

    def prefix(self) -> str:
        from lakehouse.contracts.places import landing_prefix

        return landing_prefix(self.path, self.timezone, self.of().start)

    def question(self) -> tuple[str, ...]:
        return self.prefix(), str(sorted(self.ready.items())), self.interval

    def ask(self) -> Any:
        from lakehouse.contracts.fields import Ready
        from lakehouse.landing import LandingError, awaited

        try:
            return awaited(self.prefix(), Ready.model_validate(self.ready), self.of().end)
        except LandingError as error:
            return Hopeless(str(error))

    def missing(self, answer: str | None) -> str | None:
        return answer

    def awaited(self) -> str:
        from lakehouse.landing import place

        return place(self.prefix())


class CoverageTrigger(IntervalTrigger):
    """A dataset holds the interval, whoever published it and however."""

    service = "catalog"

    def __init__(self, dataset: str, interval: str) -> None:
        super().__init__()
        self.dataset, self.interval = dataset, interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "lakehouse_airflow.triggers.CoverageTrigger", {"dataset": self.dataset, "interval": self.interval}

    def question(self) -> tuple[str, ...]:
        return (self.dataset,)

    def ask(self) -> Any:
        from lakehouse.coverages import held

        return held(self.dataset)

    def missing(self, answer: Any) -> str | None:
        return None if self.of() in answer else self.awaited()

    def awaited(self) -> str:
        return f"{self.dataset} to hold {self.of()}"


class LeaseTrigger(Waiting):
    """A dataset's lease is free; or it is past the time, as ISO 8601, until which somebody waits for it."""

    service = "ledger"
    timeout = LEASE_TIMEOUT
    longest_rest = 5.0  # the holder is at work: it takes seconds, and asking the ledger is cheap

    def __init__(self, dataset: str, owner: str, until: str = "") -> None:
        super().__init__()
        self.dataset, self.owner, self.until = dataset, owner, until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        until = {"until": self.until} if self.until else {}
        return "lakehouse_airflow.triggers.LeaseTrigger", {"dataset": self.dataset, "owner": self.owner, **until}

    def question(self) -> tuple[str, ...]:
        return (self.dataset,)

    def ask(self) -> Any:
        from lakehouse.ledger.answering import answers
        from lakehouse.ledger.leases import holder

        with answers():
            return holder(self.dataset)

    def missing(self, answer: Any) -> str | None:
        free = answer is None or answer.owner == self.owner
        enough = self.until and datetime.now(UTC) >= datetime.fromisoformat(self.until)
        return None if free or enough else f"{self.awaited()}, which {answer.owner} has"

    def awaited(self) -> str:
        return f"the lease of {self.dataset}"
