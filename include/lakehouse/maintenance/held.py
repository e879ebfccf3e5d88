"""Which batches main holds, also where the versions that they made have expired."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence

from pyiceberg.expressions import In, Reference
from pyiceberg.table import Table

from lakehouse.batch import Batch
from lakehouse.catalog import coverage, history, ref_snapshot, rows_from
from lakehouse.intervals import is_gone
from lakehouse.provenance import batch_of

_ID, _DAY = "_batch_id", "_ingestion_date"


def held_by(found: Table, known: Collection[Batch]) -> set[str]:
    """Which of these batches of bronze main holds: their interval, and their version, or else their rows.

    Rows that were let go by their age were there.
    """
    mine, kept_from = {one.snapshot_id for one in history(found, ref_snapshot(found))}, rows_from(found)
    away = moved_away_from(found, known)
    there = {one.batch_id: one for one in known if one.batch_id not in away}
    asked = [one for one in there.values() if _brought_rows(one) and not _heads(one) & mine]
    asked = [one for one in asked if not is_gone(one.interval, kept_from)]
    return there.keys() - {one.batch_id for one in asked} | _in_files(found, asked)


def moved_away_from(found: Table | None, known: Collection[Batch]) -> set[str]:
    """Which of these published batches main does not hold, as far as its versions tell.

    Coverage alone does not: somebody may have moved main back without the platform.
    """
    line, covered = history(found, ref_snapshot(found)) if found else [], coverage(found)
    reaches, mine = min((one.timestamp_ms for one in line), default=0), {one.snapshot_id for one in line}
    every = found.metadata.snapshots if found else ()
    beside = {one.snapshot_id for one in every if one.timestamp_ms >= reaches} - mine
    # Of a batch that two tries wrote, the ledger may name the version of the one that came too late.
    by_id = {batch_of(one) for one in line}
    return {
        one.batch_id
        for one in known
        if one.interval not in covered or (_heads(one) & beside and one.batch_id not in by_id)
    }


def _heads(batch: Batch) -> set[int | None]:
    return {write.head for write in batch.writes}


def _brought_rows(batch: Batch) -> bool:
    return batch.counts.get("inserted", 0) > 0


def _in_files(found: Table, asked: Sequence[Batch]) -> set[str]:
    """Those of which main has a data file that may hold rows, by the bounds that its manifests name."""
    if not asked:
        return set()
    ids, column = sorted(one.batch_id.encode() for one in asked), found.schema().find_field(_ID).field_id
    days = In(term=Reference(_DAY), literals={one.interval_start.date().isoformat() for one in asked})
    there: set[bytes] = set()
    for task in found.scan(row_filter=days).plan_files():
        lowest, highest = (bounds or {} for bounds in (task.file.lower_bounds, task.file.upper_bounds))
        if column in lowest and column in highest:
            there.update(ids[bisect_left(ids, lowest[column]) : bisect_right(ids, highest[column])])
    return {one.decode() for one in there}
