"""Who has yet to take what is about to go from a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from zoneinfo import ZoneInfo

from lakehouse.batch import Batch
from lakehouse.catalog import absorbed, coverage, ref_snapshot, rows_from, table
from lakehouse.changes import changed_days
from lakehouse.contracts.load import Loaded
from lakehouse.contracts.model import AnyContract, Gold, Silver
from lakehouse.intervals import Interval, shown
from lakehouse.ledger import batches
from lakehouse.plan import is_cleaned


def not_yet_taken(dataset: str, before: date, everything: Loaded) -> str:
    """Why rows of a dataset from before that day must stay for now; empty where everybody has taken them."""
    if everything.problems:
        return f"a contract has a mistake, and may be one that reads {dataset}: `lakehouse contracts check` shows it"
    return next((why for one in everything.contracts.values() for why in _lacks(one, dataset, before)), "")


def _lacks(reader: AnyContract, dataset: str, before: date) -> Iterator[str]:
    if dataset not in reader.inputs:
        return
    if isinstance(reader, Silver):
        yield from _uncleaned(reader, before)
    elif isinstance(reader, Gold):
        yield from _unbuilt(reader, dataset, before)


def _uncleaned(reader: Silver, before: date) -> Iterator[str]:
    """Each interval whose records silver has not taken as they are, under whichever contract."""
    since, held = rows_from(table(reader.reads)), coverage(table(reader.dataset))
    inputs, own = (_by_interval(reader, batches.published(name)) for name in (reader.reads, reader.dataset))
    corrections = batches.corrections(reader.reads)
    for interval, known in inputs.items():
        day = interval.start.date()
        if day >= before or (since is not None and day < since) or not _asked_for(reader, interval):
            continue
        done, mine = own.get(interval, []), corrections.of({one.batch_id for one in known})
        under, ids = (done[0].contract_version if done else ""), [one.batch_id for one in done]
        if interval not in held or not is_cleaned(reader, interval, known, mine, ids, under):
            yield f"{reader.dataset} has yet to take {shown(interval, reader.timezone)}"


def _by_interval(reader: Silver, found: Sequence[Batch]) -> dict[Interval, list[Batch]]:
    """Batches by the interval of the reader that they are in; those that lie in none are of no run of it."""
    parted: dict[Interval, list[Batch]] = {}
    for batch in found:
        interval = reader.interval_around(batch.interval_start)
        if batch.of_interval and batch.interval_end <= interval.end:
            parted.setdefault(interval, []).append(batch)
    return parted


def _asked_for(reader: Silver, interval: Interval) -> bool:
    day = interval.start.astimezone(ZoneInfo(reader.timezone)).date()
    return day >= reader.start and (reader.end is None or day < reader.end)


def _unbuilt(reader: Gold, dataset: str, before: date) -> Iterator[str]:
    """Whether gold has taken in all that happened to these days."""
    source, last = table(dataset), absorbed(table(reader.dataset))
    main = ref_snapshot(source)
    if last.get("contract") != reader.version:
        yield f"{reader.dataset} has yet to be built by its contract of now"
    elif source is not None and main is not None:
        column = next(iter(reader.rebuild.values()), "").rpartition(".")[2]
        days = changed_days(source, column, last["inputs"].get(dataset), main)
        if days is None or any(day < before for day in days):
            yield f"{reader.dataset} has yet to take in what changed before {before}"
