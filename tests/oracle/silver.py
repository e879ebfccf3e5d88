"""What the accepted records of a run make of silver: changes, whole tables, or events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any, Protocol

from .reading import Judged, Row

Rank = Callable[[Judged], Any]


class Silver(Protocol):
    """A silver table as it grows run by run: its rows by key."""

    rows: dict[Any, Row]

    def take(self, day: date, accepted: list[Judged], rejected: list[Judged]) -> Counter[str]:
        """Bring in all that the interval's files hold now; counts the accepted by their outcome."""


class Changes:
    """The newest change of each key over all intervals, unless that is a delete."""

    def __init__(self, key: str, time: str) -> None:
        self.key, self.time = key, time
        self.accepted: dict[date, list[Judged]] = {}
        self.newest: dict[Any, Judged] = {}
        self.rows: dict[Any, Row] = {}

    def take(self, day: date, accepted: list[Judged], rejected: list[Judged]) -> Counter[str]:
        """Bring in all that the interval's files hold now; counts the accepted by their outcome."""
        mine, counts = condensed(accepted, self.key, self.rank)
        counts += Counter(self.outcome(change, self.newest.get(key)) for key, change in mine.items())
        self.accepted[day] = accepted
        all_days = (change for found in self.accepted.values() for change in found)
        self.newest, _ = condensed(all_days, self.key, self.rank)
        self.rows = {key: change.row for key, change in sorted(self.newest.items()) if not change.delete}
        return counts

    def rank(self, change: Judged) -> Any:
        """What decides which change is the newer one."""
        return change.row[self.time], change.record.source_offset, change.record.source_file

    def outcome(self, change: Judged, known: Judged | None) -> str:
        """What becomes of a run's newest change of a key, where `known` is the newest of all runs before."""
        row = None if known is None or known.delete else known.row
        newer = known is None or self.rank(change) > self.rank(known)
        if change.delete:
            return "unchanged" if row is None else "deleted" if newer else "superseded"
        if row == change.row:
            return "unchanged"
        if not newer:
            return "superseded"
        return "inserted" if row is None else "updated"


class Snapshots:
    """The rows of the newest interval; a key that it lacks is deleted, one that it has in a rejected record stays.

    Where a rejected record has no key, it may have any: then all of them stay.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.rows: dict[Any, Row] = {}
        self.newest_day = date.min

    def take(self, day: date, accepted: list[Judged], rejected: list[Judged]) -> Counter[str]:
        """Bring in all that the interval's files hold now; counts the accepted by their outcome."""
        mine, counts = condensed(accepted, self.key, by_place)
        if day < self.newest_day:
            return counts + Counter(superseded=len(mine))
        self.newest_day = day
        brought = {key: record.row for key, record in mine.items()}
        counts += Counter(self.outcome(key, row) for key, row in brought.items())
        if accepted or rejected:
            stay = {record.row.get(self.key) for record in rejected}
            missing = self.rows.keys() - stay - brought.keys()
            gone = set() if None in stay else missing
            counts += Counter(vanished=len(gone), spared=len(missing - gone))
            self.rows = dict(
                sorted({key: row for key, row in (self.rows | brought).items() if key not in gone}.items())
            )
        return counts

    def outcome(self, key: Any, row: Row) -> str:
        """What becomes of a row that is in the interval."""
        if key not in self.rows:
            return "inserted"
        return "unchanged" if self.rows[key] == row else "updated"


class Events:
    """All events; what an interval brought before is replaced. Keys are (day of the interval, the event's id)."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.rows: dict[Any, Row] = {}

    def take(self, day: date, accepted: list[Judged], rejected: list[Judged]) -> Counter[str]:
        """Bring in all that the interval's files hold now; counts the accepted by their outcome."""
        mine: dict[Any, Row] = {}
        for event in sorted(accepted, key=lambda event: (event.record.source_file, event.record.source_offset)):
            mine.setdefault((day, event.row[self.key]), event.row)
        others = {key: row for key, row in self.rows.items() if key[0] != day}
        self.rows = dict(sorted((others | mine).items()))
        return Counter(inserted=len(mine), duplicate=len(accepted) - len(mine))


def by_place(record: Judged) -> Any:
    """The order of a whole table's records."""
    return record.record.source_offset, record.record.source_file


def condensed(accepted: Iterable[Judged], key: str, rank: Rank) -> tuple[dict[Any, Judged], Counter[str]]:
    """The newest of each key, and how many of the others are a repeat, word for word, or superseded."""
    by_key: dict[Any, list[Judged]] = defaultdict(list)
    for record in accepted:
        by_key[record.row[key]].append(record)
    counts: Counter[str] = Counter()
    for found in by_key.values():
        distinct = len({record.record.text for record in found})
        counts.update(duplicate=len(found) - distinct, superseded=distinct - 1)
    return {key: max(found, key=rank) for key, found in by_key.items()}, counts
