"""From what happened to what is delivered: late, out of order, twice, or broken, as the recipe asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Any

from lakehouse.sample.recipe import DAY_MS, Recipe, day_number, day_number_of

# A key's events happen within four days of its first, and arrive within six: so a day's files are made from the
# histories born on that day and on the six before it, whatever range is asked for.
ARRIVAL_DAYS = 6
# Within two days a change is still taken; six days later it is beyond what late_data allows.
DELAYS = tuple(days * DAY_MS for days in (1, 1, 1, 2, 2, 6))
MAX_SWAP_DAYS = 2
# After which a repeated line comes: in the same file, in another part, the next day.
REPEATS = (1_000, DAY_MS // 3, DAY_MS)
# By how much a change is overtaken by its successor.
OVERTAKEN = (1_000, 60_000, DAY_MS)
BREAKS = ("truncated", "garbage", "list", "number", "null", "empty")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, as its source recorded it; the name is unique in its dataset."""

    name: str
    at_ms: int
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event's line, or a broken one in its wake, on its way into a file."""

    at_ms: int
    event: Event
    broken: str | None = None


History = Sequence[Event]
Histories = Callable[[date, Recipe], Iterable[History]]
Soil = Callable[[Event, Random, Recipe], dict[str, Any]]


def lines(day: date, recipe: Recipe, histories: Histories, soil: Soil) -> list[bytes]:
    """The lines delivered on a day, in the order in which they arrive."""
    found: list[Arrival] = []
    for back in range(ARRIVAL_DAYS + 1):
        found += _arrivals(histories, day - timedelta(days=back), recipe).get(day_number(day), ())
    made = sorted((arrival.at_ms, _line(arrival, recipe, soil)) for arrival in found)
    return [line for _, line in made]


def iso(ms: int, timespec: str = "seconds") -> str:
    """A moment as ISO 8601 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


@lru_cache(maxsize=32)
def _arrivals(histories: Histories, born: date, recipe: Recipe) -> dict[int, list[Arrival]]:
    """All arrivals of the histories born on a day, by the number of the day of arrival.

    Cached, for the files of seven days are made from it.
    """
    by_day: dict[int, list[Arrival]] = {}
    last = day_number(born) + ARRIVAL_DAYS
    for history in histories(born, recipe):
        for arrival in _ways(history, last, recipe):
            by_day.setdefault(day_number_of(arrival.at_ms), []).append(arrival)
    return by_day


def _ways(history: History, last: int, recipe: Recipe) -> Iterable[Arrival]:
    """The arrivals of one key's events, with repeats and broken lines."""
    luck = recipe.random("way", history[0].name)
    for event, arrives in zip(history, _times(history, last, recipe, luck), strict=True):
        yield Arrival(arrives, event)
        if after := recipe.struck("duplicates", luck, REPEATS):
            yield Arrival(_in_time(arrives + after, arrives, last), event)
        if broken := recipe.struck("malformed", luck, BREAKS):
            yield Arrival(_in_time(arrives + 1, arrives, last), event, broken)


def _times(history: History, last: int, recipe: Recipe, luck: Random) -> list[int]:
    """When each event arrives: when it happens, unless it is held up or overtaken by its successor."""
    times = []
    for event in history:
        delay = recipe.struck("late", luck, DELAYS) or 0
        times.append(_in_time(event.at_ms + delay, event.at_ms, last))
    gap = recipe.struck("out_of_order", luck, OVERTAKEN)
    which = int(luck.random() * (len(history) - 1))
    if gap and len(history) > 1:
        event, overtaken = history[which], times[which + 1] + gap
        if day_number_of(overtaken) - day_number_of(event.at_ms) <= MAX_SWAP_DAYS:
            times[which] = _in_time(overtaken, event.at_ms, last)
    return times


def _in_time(arrives: int, otherwise: int, last: int) -> int:
    """The time wished for if it is not after the last day of arrival, else the other."""
    return arrives if day_number_of(arrives) <= last else otherwise


def _line(arrival: Arrival, recipe: Recipe, soil: Soil) -> bytes:
    """The bytes of a line: the same for an event and its repeats."""
    luck = recipe.random("soil", arrival.event.name)
    line = json.dumps(soil(arrival.event, luck, recipe), separators=(",", ":")).encode()
    return _broken(line, arrival.broken, luck) if arrival.broken else line


def _broken(line: bytes, how: str, luck: Random) -> bytes:
    """A line that is no JSON object, in the given way."""
    if how == "truncated":
        return line[: luck.randrange(1, len(line) - 1)]
    fixed = {"garbage": b"#### connection reset ####", "list": b"[" + line + b"]", "number": b"42", "null": b"null"}
    return fixed.get(how, b"")
