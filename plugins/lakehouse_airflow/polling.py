"""How the triggerer asks a service: in few threads, once for all who wait, and less and less often."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

SHORTEST_WAIT = 2.0
GROWTH = 1.5
JITTER = 0.2
# Of each service: one that hangs does not keep the triggerer from asking the others.
THREADS = 4


@dataclass(frozen=True)
class Unanswered:
    """The service did not answer; asked again, it may."""

    why: str


@dataclass(frozen=True)
class Hopeless:
    """The answer is one that waiting will not mend."""

    why: str


async def asked(service: str, question: Callable[[], Any]) -> Any:
    """What a blocking question is answered, asked in one of the service's threads; it never blocks the triggerer."""
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads(service), question)
    except OSError as error:  # every kind of no answer is one: the platform's own, requests' and the socket's
        return Unanswered(str(error) or type(error).__name__)


@cache
def _threads(service: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix=f"asks-{service}")


class Pace:
    """How long to rest between two questions: longer and longer, until somebody new waits for the answer."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._rest = SHORTEST_WAIT
        self._hurry = asyncio.Event()

    def quicken(self) -> None:
        """Ask again soon."""
        self._rest = SHORTEST_WAIT
        self._hurry.set()

    async def rest(self) -> None:
        """Rest, but at least the shortest time however many are in a hurry."""
        least, rest = _jittered(SHORTEST_WAIT), _jittered(self._rest)
        self._rest = min(self._rest * GROWTH, self._longest)
        await asyncio.sleep(least)
        try:
            await asyncio.wait_for(self._hurry.wait(), max(0.0, rest - least))
        except TimeoutError:
            return
        finally:
            self._hurry.clear()


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311


# A pace is there for as long as somebody asks or waits.
_PACES: WeakValueDictionary[Hashable, Pace] = WeakValueDictionary()


def pace(question: Hashable, longest: float) -> Pace:
    """The one pace at which a question is asked, whoever waits for its answer."""
    found = _PACES.get(question)
    if found is None:
        found = _PACES[question] = Pace(longest)
    return found
