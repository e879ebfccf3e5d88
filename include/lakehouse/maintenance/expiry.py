"""Which versions of a table are past their time, by Iceberg's own rules for what a branch or a tag keeps."""

from __future__ import annotations

from datetime import datetime

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import ancestors_of

from lakehouse.catalog import MAIN


def expirable(metadata: TableMetadata, limit: datetime, keep_last: int, now: datetime) -> int:
    """How many versions `expire_snapshots` would forget; none of those that a ref keeps."""
    before, moment = limit.timestamp() * 1000, now.timestamp() * 1000
    kept: set[int] = set()
    for name, ref in metadata.refs.items():
        if name == MAIN or not _over(metadata, ref, moment):
            kept |= _kept_by(metadata, ref, before, keep_last)
    return sum(one.snapshot_id not in kept and one.timestamp_ms < before for one in metadata.snapshots)


def _over(metadata: TableMetadata, ref: SnapshotRef, moment: float) -> bool:
    """Whether a ref has an end, and it has passed: a pin that was to be kept for a time."""
    snapshot = metadata.snapshot_by_id(ref.snapshot_id)
    if snapshot is None:
        return True
    return ref.max_ref_age_ms is not None and snapshot.timestamp_ms + ref.max_ref_age_ms < moment


def _kept_by(metadata: TableMetadata, ref: SnapshotRef, before: float, keep_last: int) -> set[int]:
    """A tag keeps its version; a branch its newest ones, and all that are young enough."""
    if ref.snapshot_ref_type == SnapshotRefType.TAG:
        return {ref.snapshot_id}
    least = ref.min_snapshots_to_keep or keep_last
    line = list(ancestors_of(metadata.snapshot_by_id(ref.snapshot_id), metadata))
    return {one.snapshot_id for place, one in enumerate(line) if place < least or one.timestamp_ms >= before}
