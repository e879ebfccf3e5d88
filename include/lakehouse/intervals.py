"""Intervals: half-open ranges of time, and sets of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo


@dataclass(frozen=True, order=True)
class Interval:
    """The half-open time range [start, end) that a run owns, in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError(f"an interval needs times with a zone, not {self.start} and {self.end}")
        # First in UTC: Python compares times of one zone by their clocks, which are put back once a year.
        object.__setattr__(self, "start", self.start.astimezone(UTC))
        object.__setattr__(self, "end", self.end.astimezone(UTC))
        if self.start >= self.end:
            raise ValueError(f"an interval must end after it starts: {self.start} to {self.end}")

    @classmethod
    def parse(cls, text: str) -> Interval:
        """Read what `str` wrote: two ISO times with a slash between."""
        start, _, end = text.partition("/")
        return cls(datetime.fromisoformat(start), datetime.fromisoformat(end))

    def __str__(self) -> str:
        return f"{self.start.isoformat()}/{self.end.isoformat()}"

    @property
    def days(self) -> list[date]:
        """The UTC days that the interval touches."""
        last = (self.end - timedelta(microseconds=1)).date()
        return [self.start.date() + timedelta(n) for n in range((last - self.start.date()).days + 1)]


def is_gone(interval: Interval, kept_from: date | None) -> bool:
    """Whether the records of an interval, or some of them, were let go by a table that keeps those from a day on."""
    return kept_from is not None and interval.start.date() < kept_from


def typed(interval: Interval, timezone: str) -> str:
    """An interval as commands take it: by its day in the dataset's zone, or by its start where a day has several."""
    # The day on which clocks go forward has 23 hours.
    if interval.end - interval.start >= timedelta(hours=23):
        return f"{interval.start.astimezone(ZoneInfo(timezone)):%Y-%m-%d}"
    return interval.start.isoformat(timespec="minutes")


def shown(interval: Interval, timezone: str) -> str:
    """An interval as people read it: whole days of the dataset's zone by their dates, all else by the clock, in UTC."""
    zone = ZoneInfo(timezone)
    start, end = interval.start.astimezone(zone), interval.end.astimezone(zone)
    if start.time() == end.time() == time.min:
        last = end.date() - timedelta(days=1)
        return f"{start:%Y-%m-%d}" + (f" to {last:%Y-%m-%d}" if last > start.date() else "")
    start, end = interval.start, interval.end
    until = f"{end:%H:%M}" if start.date() == end.date() else f"{end:%Y-%m-%d %H:%M}"
    return f"{start:%Y-%m-%d %H:%M} to {until} UTC"


@dataclass(frozen=True)
class Coverage:
    """The intervals that a table holds: sorted, merged, without overlap."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> Coverage:
        merged: list[Interval] = []
        for interval in sorted(intervals):
            if merged and interval.start <= merged[-1].end:
                merged[-1] = Interval(merged[-1].start, max(merged[-1].end, interval.end))
            else:
                merged.append(interval)
        return cls(tuple(merged))

    def add(self, interval: Interval) -> Coverage:
        return Coverage.of((*self.intervals, interval))

    def remove(self, gone: Interval) -> Coverage:
        ends = [
            piece
            for one in self.intervals
            for piece in ((one.start, min(one.end, gone.start)), (max(one.start, gone.end), one.end))
        ]
        return Coverage.of(Interval(start, end) for start, end in ends if start < end)

    def __contains__(self, interval: Interval) -> bool:
        return any(i.start <= interval.start and interval.end <= i.end for i in self.intervals)

    def reaches_beyond(self, interval: Interval) -> bool:
        """Whether something later than the interval is covered."""
        return self.end is not None and self.end > interval.end

    @property
    def end(self) -> datetime | None:
        """The end of the newest covered interval: what freshness is measured from."""
        return self.intervals[-1].end if self.intervals else None

    def dumps(self) -> str:
        return json.dumps([[i.start.isoformat(), i.end.isoformat()] for i in self.intervals])

    @classmethod
    def loads(cls, text: str | None) -> Coverage:
        pairs = json.loads(text) if text else []
        return cls.of(Interval(datetime.fromisoformat(a), datetime.fromisoformat(b)) for a, b in pairs)
