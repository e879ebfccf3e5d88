"""Whether a dataset's intervals are made of whole ones of its input's: one that two of them share is in neither."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lakehouse.intervals import shown

if TYPE_CHECKING:
    from lakehouse.contracts.model import Contract

_IN_A_ROW, _DAYS = 60, 366


def torn(reader: Contract, source: Contract) -> str:
    """Which of the input's intervals lies in two of the reader's, within a year of the start; empty where none does."""
    if (reader.schedule, reader.timezone) == (source.schedule, source.timezone):
        return ""
    for moment in _borders(reader):
        around = source.interval_around(moment)
        if around.start != moment:
            return shown(around, source.timezone)
    return ""


def _borders(contract: Contract) -> Iterator[datetime]:
    """Where the dataset's intervals begin: many in a row, and one of each day, as clocks are put forward and back."""
    first = datetime.combine(contract.start, time.min, ZoneInfo(contract.timezone))
    around = contract.interval_after(first)
    for _ in range(_IN_A_ROW):
        yield around.start
        around = contract.interval_after(around.end)
    yield from (contract.interval_after(first + timedelta(day)).start for day in range(_DAYS))
