"""A table's versions as people see them: when, which batch and run, what changed, which names point to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakehouse.catalog import history, ref_snapshot
from lakehouse.ledger import batches
from lakehouse.provenance import batch_of


@dataclass(frozen=True)
class Entry:
    """One snapshot."""

    at: datetime
    snapshot: int
    operation: str
    added: int
    removed: int
    batch_id: str
    run: str
    refs: tuple[str, ...]
    in_main: bool


def timeline(found: Table) -> list[Entry]:
    """Every snapshot that is still known, newest first: main's and those that only a branch, a tag or nothing names."""
    line = history(found, ref_snapshot(found))
    main = {snapshot.snapshot_id for snapshot in line}
    # Older than what is known of main's line: kept by a name, and it was in main once.
    main |= {one.snapshot_id for one in found.metadata.snapshots if line and one.timestamp_ms < line[-1].timestamp_ms}
    runs = batches.runs_of({batch for one in found.metadata.snapshots if (batch := batch_of(one))})
    newest_first = sorted(found.metadata.snapshots, key=lambda one: one.timestamp_ms, reverse=True)
    return [_entry(found, one, runs, in_main=one.snapshot_id in main) for one in newest_first]


def _entry(found: Table, snapshot: Snapshot, runs: dict[str, str], *, in_main: bool) -> Entry:
    batch_id = batch_of(snapshot) or ""
    return Entry(
        at=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
        snapshot=snapshot.snapshot_id,
        operation=snapshot.summary.operation.value if snapshot.summary else "",
        added=_total(snapshot, "added-records"),
        # A deletion vector that grows is written anew, with what it held before.
        removed=_total(snapshot, "deleted-records")
        + _total(snapshot, "added-position-deletes")
        - _total(snapshot, "removed-position-deletes"),
        batch_id=batch_id,
        run=runs.get(batch_id, ""),
        refs=tuple(
            sorted(name for name, ref in found.metadata.refs.items() if ref.snapshot_id == snapshot.snapshot_id)
        ),
        in_main=in_main,
    )


def _total(snapshot: Snapshot, name: str) -> int:
    return int(snapshot.summary.get(name) or 0) if snapshot.summary else 0
