"""Where an interval's files are expected: a path that each interval fills in otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo


def landing_prefix(path: str, timezone: str, start: datetime) -> str:
    """A source's path for the interval that starts then; a time without a zone is one of the given zone."""
    zone = ZoneInfo(timezone)
    return path.format(interval=start.astimezone(zone) if start.tzinfo else start.replace(tzinfo=zone))


def fixed_part(path: str) -> str:
    """How the names of all of a source's files begin: what of its path is the same for all intervals."""
    return path.partition("{")[0]


def may_share(path: str, other: str) -> bool:
    """Whether two sources may find the same file."""
    one, two = fixed_part(path), fixed_part(other)
    return one.startswith(two) or two.startswith(one)


def faults_of_path(path: str, timezone: str, starts: Iterable[datetime]) -> Iterator[tuple[str, str]]:
    """A path that cannot be filled in, or is the same for two intervals, as (field, message)."""
    try:
        filled = sorted((landing_prefix(path, timezone, start), start) for start in {*starts})
    except (AttributeError, KeyError, IndexError, ValueError):
        yield "source.path", f"'{path}' cannot be filled in; write {{interval:%Y-%m-%d}} and plain names"
        return
    for (one, first), (other, second) in pairwise(filled):
        if one == other:
            both = " and ".join(f"{start.astimezone(ZoneInfo(timezone)):%Y-%m-%d %H:%M%z}" for start in (first, second))
            told = "name more of the start, such as {interval:%Y-%m-%dT%H%M%z}"
            yield "source.path", f"is {one} for the intervals of {both}; {told}"
            return


def telling_moments(start: datetime) -> Iterator[datetime]:
    """Moments whose intervals are told apart only by a path that names their start in full."""
    yield from (start + timedelta(minutes=minutes) for minutes in (0, 1, 16, 61, 721))
    yield from (start + timedelta(days) for days in (1, 7, 28, 30, 31, 365, 366))
    # An hour that clocks go back to is there twice.
    year = [start.astimezone(UTC) + timedelta(n) for n in range(367)]
    for day in (first for first, second in pairwise(year) if _put_back(first, second, start)):
        hours = pairwise(day + timedelta(hours=n) for n in range(25))
        yield from next(pair for pair in hours if _put_back(*pair, start))


def _put_back(first: datetime, second: datetime, of: datetime) -> bool:
    """Whether clocks are put back between two moments, in the zone of another."""
    before, after = (one.astimezone(of.tzinfo).utcoffset() or timedelta() for one in (first, second))
    return after < before
