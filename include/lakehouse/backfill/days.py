"""Days and times as people type them, and as they are told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval, typed

if TYPE_CHECKING:  # Airflow's command line imports this, and has no use for contracts
    from lakehouse.contracts.model import Contract

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_LEAST = timedelta(microseconds=1)


def moment(text: str, zone: tzinfo, end: bool = False) -> datetime:
    """A day's begin, or with `end` its last moment; a time is taken as it is, in the given zone if it names none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise LakehouseError(f"'{text}' is no date; write it as 2026-01-31 or 2026-01-31T06:00") from None
    if not _DAY.fullmatch(text):
        return found if found.tzinfo else found.replace(tzinfo=zone)
    next_day = datetime.combine(found.date() + timedelta(days=1), time.min, zone)
    return next_day - _LEAST if end else found.replace(tzinfo=zone)


def span(first: str, last: str, zone: tzinfo) -> Interval:
    """The time in which the intervals begin that are asked for: both ends are included, a day as a whole."""
    begin, end = moment(first, zone), moment(last, zone, end=True)
    if begin > end:
        raise LakehouseError(f"the start date {first} is after the end date {last}")
    return Interval(begin, end + _LEAST)


def listed(contract: Contract, intervals: Iterable[Interval]) -> str:
    """Intervals as commands take them; of those without a gap between them, the first and the last."""
    rows: list[list[Interval]] = []
    for interval in sorted(intervals):
        if rows and rows[-1][-1].end == interval.start:
            rows[-1].append(interval)
        else:
            rows.append([interval])
    ends = [(typed(row[0], contract.timezone), typed(row[-1], contract.timezone)) for row in rows]
    return ", ".join(first if first == last else f"{first} to {last}" for first, last in ends)
