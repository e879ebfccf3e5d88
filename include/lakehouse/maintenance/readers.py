"""Who has yet to take what is about to go from bronze."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from lakehouse.batch import Batch
from lakehouse.catalog import coverage, rows_from, table
from lakehouse.cleaned import is_cleaned
from lakehouse.contracts.load import Loaded
from lakehouse.contracts.model import AnyContract, Silver
from lakehouse.intervals import Interval, is_gone, shown
from lakehouse.ledger import batches, rollbacks, taken_files
from lakehouse.maintenance.held import moved_away_from
from lakehouse.settings import settings


class Within:
    """Published batches, to be asked for those of an interval: newest first, as the ledger has them."""

    def __init__(self, found: Sequence[Batch]) -> None:
        known = [(one.interval_start, age, one) for age, one in enumerate(found) if one.of_interval]
        self._known = sorted(known, key=lambda one: one[:2])
        self._starts = [start for start, _, _ in self._known]

    def __call__(self, interval: Interval) -> list[Batch]:
        begun = self._known[bisect_left(self._starts, interval.start) : bisect_left(self._starts, interval.end)]
        return [one for _, one in sorted((age, one) for _, age, one in begun if one.interval_end <= interval.end)]


def readers(dataset: str, everything: Loaded) -> list[Silver]:
    """The datasets that are made from it."""
    found = everything.contracts.values()
    return [one for one in found if isinstance(one, Silver) and one.reads == dataset]


def not_yet_taken(dataset: str, before: date, everything: Loaded) -> str:
    """Why rows of a dataset from before that day must stay for now; empty where everybody has taken them."""
    return next(_lacks(dataset, before, everything), "")


def _lacks(dataset: str, before: date, everything: Loaded) -> Iterator[str]:
    own = everything.contracts.get(dataset)
    if everything.problems or own is None:
        yield f"a contract has a mistake, and may be one that reads {dataset}: `lakehouse contracts check` shows it"
        return
    kept_from = rows_from(table(dataset))
    for one in (own, *readers(dataset, everything)):
        yield from _unfinished(one.dataset)
        yield from _holes(one, kept_from, before)
        if isinstance(one, Silver):
            yield from _untaken(one, kept_from, before)


def _unfinished(dataset: str) -> Iterator[str]:
    """What was cut short, and may yet turn out not to be in main."""
    for batch in batches.unsettled(dataset):
        yield f"the publish of {batch.batch_id} is not confirmed; the next run of {dataset} does that"
    if rollbacks.unfinished(dataset):
        yield f"a rollback of {dataset} was cut short; its next run finishes it"


def _holes(contract: AnyContract, kept_from: date | None, before: date) -> Iterator[str]:
    """The first interval of that time that a dataset has not: what is not there by then could never come."""
    start = datetime.combine(_first_day(contract), time.min, ZoneInfo(contract.timezone))
    since = max(start, datetime.combine(kept_from, time.min, UTC)) if kept_from else start
    interval = contract.interval_after(since)
    for covered in coverage(table(contract.dataset)).intervals:
        if covered.start <= interval.start < covered.end:
            interval = contract.interval_around(covered.end)  # one that is there in part is not there
    if interval.start < datetime.combine(before, time.min, UTC) and _asked_for(contract, interval):
        yield f"{contract.dataset} has yet to take {shown(interval, contract.timezone)}"


def _first_day(contract: AnyContract) -> date:
    """The day on which its first interval begins, as its DAG has it."""
    floor = settings().start
    return max(contract.start, floor) if floor else contract.start


def _asked_for(contract: AnyContract, interval: Interval) -> bool:
    day = interval.start.astimezone(ZoneInfo(contract.timezone)).date()
    return day >= _first_day(contract) and (contract.end is None or day < contract.end)


def _untaken(reader: Silver, kept_from: date | None, before: date) -> Iterator[str]:
    """Each batch that silver has not taken as it is, under whichever contract.

    They are compared by the intervals that they had: schedule and time zone may have been others.
    """
    found, own = batches.published(reader.reads), batches.published(reader.dataset)
    inputs, made, corrections = Within(found), Within(own), taken_files.corrections(reader.reads)
    old = [one for one in found if one.of_interval and is_gone(one.interval, before)]
    going = {one.batch_id: one for one in old if not is_gone(one.interval, kept_from)}
    away = moved_away_from(table(reader.dataset), own) if going else set()
    taken: set[str] = set()
    for interval in sorted({one.interval for one in own if one.of_interval}):
        known, done = inputs(interval), made(interval)
        mine = {one.batch_id for one in known}
        if mine.isdisjoint(going):
            continue
        if done[0].batch_id in away:
            yield f"somebody moved main of {reader.dataset} back to before {done[0].batch_id}; bring it forward again"
        if is_cleaned(reader, interval, known, corrections.of(mine), done, done[0].contract_version):
            taken |= mine
    for one in sorted(going.values(), key=lambda one: one.interval):
        if one.batch_id not in taken and _asked_for(reader, one.interval):
            yield f"{reader.dataset} has yet to take {shown(one.interval, reader.timezone)} as it is now"
