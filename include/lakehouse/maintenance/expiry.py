"""Which versions of a table are past their time, by Iceberg's own rules for what a branch or a tag keeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from lakehouse.catalog import MAIN
from lakehouse.contracts.keeping import Retention
from lakehouse.provenance import is_maintenance

# A run that has chosen the version it reads may be at work for that long: it must not lose it.
READERS = timedelta(hours=24)


def bounds(metadata: TableMetadata, kept: Retention, now: datetime) -> tuple[datetime, int]:
    """What `expire_snapshots` may be asked for at most: `older_than` and `retain_last`.

    Versions that maintenance made do not count among the last that the contract keeps, and a version that was main
    within the last day stays, be it on main's line or rolled back.
    """
    main = metadata.refs.get(MAIN)
    line = list(ancestors_of(metadata.snapshot_by_id(main.snapshot_id), metadata)) if main else []
    recent, places = _main_since(metadata, now - READERS), {one.snapshot_id: at for at, one in enumerate(line, 1)}
    last = max([kept.keep_last, _place(line, kept.keep_last), *(places.get(one, 0) for one in recent)])
    off_line = [metadata.snapshot_by_id(one) for one in recent if one not in places]
    times = [datetime.fromtimestamp(one.timestamp_ms / 1000, UTC) for one in off_line if one]
    return min([now - kept.history, now - READERS, *times]), last


def _place(line: list[Snapshot], count: int) -> int:
    """How many versions of main's line hold so many that maintenance did not make."""
    own = [at for at, one in enumerate(line, 1) if not is_maintenance(one)]
    return own[count - 1] if len(own) >= count else len(line)


def _main_since(metadata: TableMetadata, since: datetime) -> set[int]:
    """Versions that were main at that time or later."""
    moment = since.timestamp() * 1000
    log = sorted(metadata.snapshot_log, key=lambda entry: entry.timestamp_ms)
    before = [entry.snapshot_id for entry in log if entry.timestamp_ms < moment][-1:]
    return {*before, *(entry.snapshot_id for entry in log if entry.timestamp_ms >= moment)}


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
