"""What the planner has to know, from the catalog, the ledger, the landing bucket and Airflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from pyiceberg.table import Table

from lakehouse import landing, naming
from lakehouse.backfill.airflow import Backfills
from lakehouse.backfill.outdated import NEW_FILES, Moved, built, cleaned
from lakehouse.backfill.plan import Facts, Mode, Plan, plan
from lakehouse.backfill.scope import Contracts, beginning_in, in_order, overlapping
from lakehouse.batch import UNDONE, InputFile
from lakehouse.catalog import absorbed, coverage, history, ref_snapshot, rows_from, table
from lakehouse.contracts.model import AnyContract, Bronze, Gold, Silver
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval, is_gone
from lakehouse.ledger import batches, taken_files
from lakehouse.provenance import batch_of, is_maintenance

LISTINGS_AT_A_TIME = 8


@dataclass(frozen=True)
class Asked:
    """A backfill as asked for: the dataset's intervals that begin within the span, and those of its kin."""

    dataset: str
    span: Interval
    upstream: bool = False
    downstream: bool = False
    mode: Mode = Mode.NEEDED


def planned(asked: Asked, contracts: Contracts, api: Backfills, now: datetime) -> Plan:
    """What has to be built now for what is asked."""
    scope = in_order(contracts, asked.dataset, upstream=asked.upstream, downstream=asked.downstream)
    intervals = _intervals(asked, scope, now)
    return plan(scope, intervals, gathered(scope, intervals, api, asked.mode), asked.mode)


def _intervals(asked: Asked, scope: Sequence[AnyContract], now: datetime) -> dict[str, list[Interval]]:
    """The dataset's own intervals that are asked for, and of the others those that share some time with them."""
    own = next(one for one in scope if one.dataset == asked.dataset)
    mine = beginning_in(own, asked.span, now)
    if not mine:
        until = f" and ends before {own.end}" if own.end else ""
        raise LakehouseError(
            f"no interval of {asked.dataset} that has ended begins in these days; it starts on {own.start}{until}"
        )
    whole = Interval(mine[0].start, mine[-1].end)
    return {one.dataset: mine if one is own else overlapping(one, whole, now) for one in scope}


def gathered(
    scope: Iterable[AnyContract], intervals: Mapping[str, Sequence[Interval]], api: Backfills, mode: Mode
) -> dict[str, Facts]:
    """The facts of these datasets; of their other inputs only what they hold."""
    found: dict[str, Facts] = {}
    undone: dict[str, list[Interval]] = {}
    for contract in scope:
        name, mine = contract.dataset, intervals[contract.dataset]
        for source in contract.inputs:
            found.setdefault(source, Facts(held=coverage(table(source))))
            undone.setdefault(source, _undone(source))
        undone[name] = [*_undone(name), *(one for source in contract.inputs for one in undone[source])]
        failed = frozenset(_failed(api, name, mine))
        if isinstance(contract, Bronze):
            found[name] = _of_bronze(contract, mine, failed, mode)
        elif isinstance(contract, Silver):
            found[name] = _of_silver(contract, mine, failed)
        else:
            found[name] = _of_gold(contract, mine, failed, [u for s in contract.inputs for u in undone[s]])
    return found


def _failed(api: Backfills, dataset: str, intervals: Sequence[Interval]) -> list[Interval]:
    """The intervals whose run has failed."""
    if not intervals:
        return []
    dag = api.dag(naming.dag_id(dataset))
    runs = api.runs_by_start(dag.dag_id, intervals[0].start, intervals[-1].start)
    return [one for one in intervals if one.start in runs and runs[one.start].state == "failed"]


def _undone(dataset: str) -> list[Interval]:
    return [one.interval for one in batches.settled(dataset) if one.state == UNDONE and one.of_interval]


def _of_bronze(contract: Bronze, intervals: Sequence[Interval], failed: frozenset[Interval], mode: Mode) -> Facts:
    held = coverage(table(contract.dataset))
    looked_at = [] if mode is Mode.MISSING else [one for one in intervals if one in held]
    outdated = dict.fromkeys(_with_new_files(contract, looked_at), NEW_FILES)
    wanted = [one for one in intervals if one not in held or one in outdated or mode is Mode.ALL]
    return Facts(held, failed, outdated, awaited=_awaited(contract, wanted))


def _with_new_files(contract: Bronze, intervals: Sequence[Interval]) -> list[Interval]:
    """The intervals whose landing folder has files that no published batch has taken as they are."""
    with ThreadPoolExecutor(LISTINGS_AT_A_TIME) as pool:
        folders = dict(zip(intervals, pool.map(lambda one: _files(contract, one), intervals), strict=True))
    fresh = {
        one.uri for one in taken_files.untaken(contract.dataset, [file for files in folders.values() for file in files])
    }
    return [one for one, files in folders.items() if any(file.uri in fresh for file in files)]


def _files(contract: Bronze, interval: Interval) -> list[InputFile]:
    """What the folder of an interval that was taken holds; it may have been tidied away since, in part or all."""
    try:
        return landing.data_files(contract, interval.start)
    except landing.LandingError:
        return []


def _awaited(contract: Bronze, intervals: Sequence[Interval]) -> dict[Interval, str]:
    """What the landing folders wait for that are not complete."""

    def missing(interval: Interval) -> str | None:
        try:
            return landing.missing(contract, interval.start, interval.end)
        except landing.LandingError as error:
            return str(error)

    with ThreadPoolExecutor(LISTINGS_AT_A_TIME) as pool:
        found = zip(intervals, pool.map(missing, intervals), strict=True)
        return {interval: told for interval, told in found if told}


def _of_silver(contract: Silver, intervals: Sequence[Interval], failed: frozenset[Interval]) -> Facts:
    held, kept_from = coverage(table(contract.dataset)), rows_from(table(contract.reads))
    outdated = cleaned(
        contract,
        [one for one in intervals if one in held and not is_gone(one, kept_from)],
        batches.settled(contract.reads),
        taken_files.corrections(contract.reads),
        batches.published(contract.dataset),
    )
    return Facts(held, failed, outdated)


def _of_gold(
    contract: Gold, intervals: Sequence[Interval], failed: frozenset[Interval], undone: Sequence[Interval]
) -> Facts:
    own = table(contract.dataset)
    held = coverage(own)
    last = absorbed(own)
    if not last:
        return Facts(held, failed)
    moved = {name: _moved(table(name), taken) for name, taken in last["inputs"].items() if name in contract.inputs}
    named = {one for change in moved.values() for one in change.batches if one}
    known = {one.batch_id: one for one in batches.by_id(named)}
    mine = [one for one in intervals if one in held]
    outdated, stale = built(contract, mine, last["contract"], moved, known, undone)
    return Facts(held, failed, outdated, stale)


def _moved(found: Table | None, taken: int | None) -> Moved:
    """What became of an input since the version that was taken in."""
    if found is None or ref_snapshot(found) == taken:
        return Moved(lost=found is None and taken is not None)
    line = history(found, ref_snapshot(found))
    newer = list(takewhile(lambda one: one.snapshot_id != taken, line))
    if taken is not None and len(newer) == len(line):
        return Moved(lost=True, undone=found.snapshot_by_id(taken) is not None)
    return Moved(tuple(batch_of(one) or "" for one in newer if not is_maintenance(one)))
