"""Who has yet to take what is about to go from bronze."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from lakehouse.batch import Batch
from lakehouse.catalog import coverage, table
from lakehouse.cleaned import is_cleaned
from lakehouse.contracts.load import Loaded
from lakehouse.contracts.model import AnyContract, Silver
from lakehouse.intervals import Interval, shown
from lakehouse.ledger import batches


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
    for batch in batches.unsettled(dataset):
        yield f"the publish of {batch.batch_id} is not confirmed; the next run of {dataset} does that"
    yield from _holes(own, before)
    for reader in readers(dataset, everything):
        yield from _holes(reader, before)
        yield from _uncleaned(reader, before)


def _holes(contract: AnyContract, before: date) -> Iterator[str]:
    """The first interval of that time that a dataset has not: what is not there by then could never come."""
    interval = contract.interval_after(datetime.combine(contract.start, time.min, ZoneInfo(contract.timezone)))
    for covered in coverage(table(contract.dataset)).intervals:
        if covered.start <= interval.start < covered.end:
            interval = contract.interval_after(covered.end)
    if interval.start < datetime.combine(before, time.min, UTC) and _asked_for(contract, interval):
        yield f"{contract.dataset} has yet to take {shown(interval, contract.timezone)}"


def _asked_for(contract: AnyContract, interval: Interval) -> bool:
    day = interval.start.astimezone(ZoneInfo(contract.timezone)).date()
    return day >= contract.start and (contract.end is None or day < contract.end)


def _uncleaned(reader: Silver, before: date) -> Iterator[str]:
    """Each interval whose records silver has not taken as they are, under whichever contract."""
    inputs, own = (_by_interval(reader, batches.published(name)) for name in (reader.reads, reader.dataset))
    corrections = batches.corrections(reader.reads)
    for interval, known in inputs.items():
        done, mine = own.get(interval, []), corrections.of({one.batch_id for one in known})
        under = done[0].contract_version if done else None
        old = interval.start.date() < before and _asked_for(reader, interval)
        if old and not is_cleaned(reader, interval, known, mine, done, under):
            yield f"{reader.dataset} has yet to take {shown(interval, reader.timezone)} as it is now"


def _by_interval(reader: Silver, found: Sequence[Batch]) -> dict[Interval, list[Batch]]:
    """Batches by the interval that they are of; replayed records are of none."""
    parted: dict[Interval, list[Batch]] = {}
    for batch in found:
        if batch.of_interval:
            parted.setdefault(reader.interval_around(batch.interval_start), []).append(batch)
    return parted
