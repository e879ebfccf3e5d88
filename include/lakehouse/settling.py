"""What became of batches whose publish was begun and not confirmed: they are brought to their end, or get none."""

from __future__ import annotations

from itertools import takewhile

from lakehouse.batch import DISCARDED, PUBLISHED, Batch, TableWrite
from lakehouse.catalog import coverage, history, ref_snapshot, table
from lakehouse.ledger import batches
from lakehouse.provenance import batch_of
from lakehouse.publish import drop_branch, publish
from lakehouse.rollback.carried_out import finish_all


def settle(dataset: str) -> None:
    """Find out what became of batches whose publish was begun and not confirmed. Call it under the lease.

    A rollback that was cut short is finished first: it decides which batches main holds.
    """
    finish_all(dataset)
    for batch in batches.unsettled(dataset):
        if not in_main(batch):
            _withdraw(batch)
        there = in_main(batch)  # it may have come there until it was withdrawn
        if there:
            _complete(batch)
        batches.settle(batch.batch_id, PUBLISHED if there else DISCARDED)


def in_main(batch: Batch) -> bool:
    """Whether main holds it: its own table's version, which decides; without one, all that it wrote."""
    written = [write for write in batch.writes if not write.empty]
    own = [write for write in written if write.table == batch.dataset]
    there = all(_is_published(batch, write) for write in own or written)
    covered = not batch.of_interval or batch.interval in coverage(table(batch.dataset))
    return there and (bool(own) or covered)


def _is_published(batch: Batch, write: TableWrite) -> bool:
    """Whether main has got a version of the batch since the one that it was written on.

    Another try of the batch may have been faster: so the id counts, not the version. The same work may have been
    published long ago, with other work on top of it: so what is older does not count.
    """
    found = table(write.table)
    line = history(found, ref_snapshot(found)) if found else []
    newer = list(takewhile(lambda one: one.snapshot_id != write.base, line))
    if write.base is not None and len(newer) == len(line):  # main has left what it was written on
        return any(one.snapshot_id == write.head for one in line)
    return any(batch_of(one) == batch.batch_id for one in newer)


def _withdraw(batch: Batch) -> None:
    """Whoever published it may only be slow: without its branches it cannot go on. Its own table's goes first."""
    for write in sorted(batch.writes, key=lambda one: one.table != batch.dataset):
        drop_branch(write)


def _complete(batch: Batch) -> None:
    """Publish what was to come after its own table."""
    for write in batch.writes:
        if not write.empty and not _is_published(batch, write):
            publish(write)
