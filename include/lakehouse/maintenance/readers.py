"""Who has yet to take what is about to go from bronze."""

from __future__ import annotations

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
            yield from _uncleaned(one, kept_from, before)


def _unfinished(dataset: str) -> Iterator[str]:
    """What was cut short, and may yet turn out not to be in main."""
    for batch in batches.unsettled(dataset):
        yield f"the publish of {batch.batch_id} is not confirmed; the next run of {dataset} does that"
    if rollbacks.unfinished(dataset):
        yield f"a rollback of {dataset} was cut short; its next run finishes it"


def _holes(contract: AnyContract, kept_from: date | None, before: date) -> Iterator[str]:
    """The first interval of that time that a dataset has not: what is not there by then could never come."""
    start = datetime.combine(contract.start, time.min, ZoneInfo(contract.timezone))
    since = max(start, datetime.combine(kept_from, time.min, UTC)) if kept_from else start
    interval = contract.interval_after(since)
    for covered in coverage(table(contract.dataset)).intervals:
        if covered.start <= interval.start < covered.end:
            interval = contract.interval_after(covered.end)
    if interval.start < datetime.combine(before, time.min, UTC) and _asked_for(contract, interval):
        yield f"{contract.dataset} has yet to take {shown(interval, contract.timezone)}"


def _asked_for(contract: AnyContract, interval: Interval) -> bool:
    day = interval.start.astimezone(ZoneInfo(contract.timezone)).date()
    return day >= contract.start and (contract.end is None or day < contract.end)


def _uncleaned(reader: Silver, kept_from: date | None, before: date) -> Iterator[str]:
    """Each interval whose records silver has not taken as they are, under whichever contract."""

    def going(name: str) -> dict[Interval, list[Batch]]:
        found = [one for one in batches.published(name) if not is_gone(one.interval, kept_from)]
        return _by_interval(reader, [one for one in found if is_gone(one.interval, before)])

    inputs, own, corrections = going(reader.reads), going(reader.dataset), taken_files.corrections(reader.reads)
    for interval, known in inputs.items():
        done, mine = own.get(interval, []), corrections.of({one.batch_id for one in known})
        under = done[0].contract_version if done else None
        if _asked_for(reader, interval) and not is_cleaned(reader, interval, known, mine, done, under):
            yield f"{reader.dataset} has yet to take {shown(interval, reader.timezone)} as it is now"


def _by_interval(reader: Silver, found: Sequence[Batch]) -> dict[Interval, list[Batch]]:
    """Batches by the interval that they are of; replayed records are of none."""
    parted: dict[Interval, list[Batch]] = {}
    for batch in found:
        if batch.of_interval:
            parted.setdefault(reader.interval_around(batch.interval_start), []).append(batch)
    return parted
