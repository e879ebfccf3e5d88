"""Triggers: what the triggerer polls while a task waits without a worker slot."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

SHORTEST_WAIT = 2.0


class PollingTrigger(BaseTrigger):
    """Asks again and again, less and less often, until the answer is yes."""

    longest_wait = 15.0

    def ready(self) -> bool:
        """Whether the wait is over. Runs in a thread."""
        raise AssertionError("a polling trigger says when it is ready")

    def awaited(self) -> str:
        raise AssertionError("a polling trigger says what it waits for")

    async def run(self) -> AsyncIterator[TriggerEvent]:
        since, wait = datetime.now(UTC), SHORTEST_WAIT
        while True:
            try:
                if await asyncio.to_thread(self.ready):
                    break
                self.log.info("waiting for %s since %s", self.awaited(), since.isoformat(timespec="seconds"))
            except ConnectionError as error:
                self.log.warning("%s; asking again", error)
            await asyncio.sleep(wait * random.uniform(0.8, 1.2))  # noqa: S311
            wait = min(wait * 1.5, self.longest_wait)
        yield TriggerEvent({"ready": self.awaited()})


class LandingTrigger(PollingTrigger):
    """The landing folder of an interval is complete, in the way that its contract has said."""

    def __init__(self, prefix: str, way: dict[str, str], end: str) -> None:
        super().__init__()
        self.prefix, self.way, self.end = prefix, way, end
        self.missing: str | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        given = {"prefix": self.prefix, "way": self.way, "end": self.end}
        return "lakehouse_airflow.triggers.LandingTrigger", given

    def awaited(self) -> str:
        """What was missing when the store was last asked; else the folder."""
        from lakehouse.landing import place

        return self.missing or place(self.prefix)

    def ready(self) -> bool:
        from lakehouse.contracts.fields import Ready
        from lakehouse.landing import awaited

        self.missing = awaited(self.prefix, Ready.model_validate(self.way), datetime.fromisoformat(self.end))
        return self.missing is None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask until the folder is complete; what waiting will not mend ends the wait, in one sentence."""
        from lakehouse.landing import LandingError

        try:
            async for event in super().run():
                yield event
        except LandingError as error:
            yield TriggerEvent({"error": str(error)})


class CoverageTrigger(PollingTrigger):
    """Every input holds the interval, whoever published it."""

    def __init__(self, datasets: list[str], interval: str) -> None:
        super().__init__()
        self.datasets, self.interval = datasets, interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "lakehouse_airflow.triggers.CoverageTrigger", {"datasets": self.datasets, "interval": self.interval}

    def awaited(self) -> str:
        return f"{', '.join(self.datasets)} to hold {self.interval}"

    def ready(self) -> bool:
        from lakehouse.catalog import coverage, table
        from lakehouse.intervals import Interval

        return all(Interval.parse(self.interval) in coverage(table(name)) for name in self.datasets)


class LeaseTrigger(PollingTrigger):
    """A dataset's lease is free."""

    longest_wait = 5.0  # the holder is at work: it takes seconds, and asking the ledger is cheap

    def __init__(self, dataset: str, owner: str) -> None:
        super().__init__()
        self.dataset, self.owner = dataset, owner

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "lakehouse_airflow.triggers.LeaseTrigger", {"dataset": self.dataset, "owner": self.owner}

    def awaited(self) -> str:
        return f"the lease of {self.dataset}"

    def ready(self) -> bool:
        from lakehouse.ledger.leases import holder

        held = holder(self.dataset)
        return held is None or held.owner == self.owner
