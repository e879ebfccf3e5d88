"""The right answers for orders, worked out from the bytes of the landing files alone.

Plain Python, and nothing of lakehouse or spark_jobs: a mistake made there cannot be made here too. It follows the
rules of include/contracts/silver/orders.yaml and include/contracts/gold/daily_sales.sql, written out by hand.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from .reading import CENT, judge

OUTCOMES = ("inserted", "updated", "deleted", "unchanged", "superseded", "duplicate", "quarantined")


class Line(NamedTuple):
    """A row of bronze."""

    day: date
    source_file: str
    source_offset: int
    text: str


class Rejected(NamedTuple):
    """A row of quarantine."""

    day: date
    source_file: str
    source_offset: int
    reasons: tuple[str, ...]


class Sale(NamedTuple):
    """A row of gold.daily_sales."""

    order_date: date
    region: str | None
    category: str | None
    gmv: Decimal | None
    orders: int
    avg_basket: Decimal | None


@dataclass(frozen=True)
class Change:
    """An accepted record: its row of silver, or a delete, and what decides which is the newest."""

    line: Line
    delete: bool
    row: dict[str, Any]

    @property
    def key(self) -> int:
        return int(self.row["order_id"])

    @property
    def rank(self) -> tuple[datetime, int, str]:
        return self.row["updated_at"], self.line.source_offset, self.line.source_file


@dataclass
class Result:
    """Everything the pipeline should have made: `batches` holds each day's counts, for days taken in order."""

    bronze: dict[date, int] = field(default_factory=dict)
    silver: dict[int, dict[str, Any]] = field(default_factory=dict)
    quarantine: list[Rejected] = field(default_factory=list)
    gold: list[Sale] = field(default_factory=list)
    batches: dict[date, dict[str, int]] = field(default_factory=dict)


def dated(files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[date, str, bytes]]:
    """Landing files with the day of their folder: dataset/yyyy-mm-dd/name."""
    for key, data in files:
        yield date.fromisoformat(key.split("/")[1]), key, data


def oracle(files: Iterable[tuple[date, str, bytes]], bucket: str = "landing") -> Result:
    """What becomes of landing files, given as (the day of the interval, key, bytes); only orders are looked at."""
    by_day: dict[date, list[Line]] = defaultdict(list)
    for day, key, data in files:
        if key.startswith("orders") and not key.rsplit("/", 1)[1].startswith("_"):
            by_day[day] += lines(day, f"s3://{bucket}/{key}", data)
    result, accepted, state = Result(), [], State()
    for day in sorted(by_day):
        changes, rejected = sift(by_day[day])
        result.bronze[day] = len(by_day[day])
        result.quarantine += rejected
        result.batches[day] = {"rows_in": len(by_day[day]), **state.take(changes), "quarantined": len(rejected)}
        accepted += changes
    result.quarantine.sort()
    result.silver = newest(accepted)
    result.gold = daily_sales(result.silver.values())
    return result


def lines(day: date, source_file: str, data: bytes) -> list[Line]:
    """Bronze: every line that is not empty, with its number among all lines of the file."""
    numbered = enumerate(data.decode("utf-8", errors="replace").split("\n"))
    return [Line(day, source_file, number, text) for number, text in numbered if text]


def sift(found: Iterable[Line]) -> tuple[list[Change], list[Rejected]]:
    """Part the lines into changes and rejected ones."""
    changes, rejected = [], []
    for line in found:
        delete, row, reasons = judge(line.day, line.text)
        if reasons:
            rejected.append(Rejected(line.day, line.source_file, line.source_offset, tuple(sorted(reasons))))
        else:
            changes.append(Change(line, delete, row))
    return changes, rejected


def newest(changes: Iterable[Change]) -> dict[int, dict[str, Any]]:
    """Silver: the newest change of each order over all days, unless that is a delete."""
    best: dict[int, Change] = {}
    for change in changes:
        if change.key not in best or change.rank > best[change.key].rank:
            best[change.key] = change
    return {key: change.row for key, change in sorted(best.items()) if not change.delete}


def daily_sales(rows: Iterable[dict[str, Any]]) -> list[Sale]:
    """Gold: by day, region and category, nulls first."""
    groups: dict[tuple[date, str | None, str | None], list[Decimal | None]] = defaultdict(list)
    for row in rows:
        if row["status"] != "cancelled":
            groups[row["ordered_at"].date(), row["region"], row["category"]].append(row["amount"])
    ordered = sorted(groups.items(), key=lambda group: [(part is not None, str(part)) for part in group[0]])
    return [Sale(*group, *totals(amounts)) for group, amounts in ordered]


def totals(amounts: list[Decimal | None]) -> tuple[Decimal | None, int, Decimal | None]:
    """Sum, number and average; no amount at all has no sum."""
    known = [amount for amount in amounts if amount is not None]
    if not known:
        return None, len(amounts), None
    gmv = sum(known, Decimal("0.00"))
    return gmv, len(amounts), (gmv / len(amounts)).quantize(CENT, ROUND_HALF_UP)


class State:
    """Silver as it grows batch by batch, only to count what each batch does to it."""

    def __init__(self) -> None:
        self.rows: dict[int, Change] = {}
        self.tombstones: dict[int, Change] = {}

    def take(self, changes: Iterable[Change]) -> dict[str, int]:
        """Apply one batch, and count its changes by their outcome."""
        by_key: dict[int, list[Change]] = defaultdict(list)
        for change in changes:
            by_key[change.key].append(change)
        counts = Counter(dict.fromkeys(OUTCOMES, 0))
        for found in by_key.values():
            distinct = len({change.line.text for change in found})
            counts["duplicate"] += len(found) - distinct
            counts["superseded"] += distinct - 1
            counts[self.apply(max(found, key=lambda change: change.rank))] += 1
        return dict(counts)

    def apply(self, change: Change) -> str:
        """Bring in the newest change of an order in a batch; tells its outcome."""
        row, tombstone = self.rows.get(change.key), self.tombstones.get(change.key)
        if change.delete:
            return self.bury(change, row)
        if row is None:
            if tombstone and tombstone.rank > change.rank:
                return "superseded"
            self.rows[change.key] = change
            return "inserted"
        if row.row == change.row:
            return "unchanged"
        if row.rank > change.rank:
            return "superseded"
        self.rows[change.key] = change
        return "updated"

    def bury(self, change: Change, row: Change | None) -> str:
        """Bring in a delete."""
        known = self.tombstones.get(change.key)
        if known is None or known.rank < change.rank:
            self.tombstones[change.key] = change
        if row is None:
            return "unchanged"
        if row.rank > change.rank:
            return "superseded"
        del self.rows[change.key]
        return "deleted"
