"""Which days of a table changed between two snapshots, from its manifests alone: no data file is read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import DayTransform, IdentityTransform

from lakehouse.catalog import history
from lakehouse.provenance import is_maintenance

_EPOCH = date(1970, 1, 1)


def changed_days(found: Table, column: str, after: int | None, until: int) -> set[date] | None:
    """The days of `column` whose rows changed in the snapshots later than `after`, up to `until`.

    None when the metadata cannot tell: nothing was absorbed before, the older snapshot has expired or is no ancestor,
    or the table is not partitioned by that column's day.
    """
    snapshots = _between(found, after, until)
    if snapshots is None:
        return None
    days: set[date] = set()
    for snapshot in snapshots:
        if is_maintenance(snapshot):
            continue
        for day in _touched(found, column, snapshot):
            if day is None:
                return None
            days.add(day)
    return days


def _between(found: Table, after: int | None, until: int) -> list[Snapshot] | None:
    newer: list[Snapshot] = []
    for snapshot in history(found, until):
        if snapshot.snapshot_id == after:
            return newer
        newer.append(snapshot)
    return None


def _touched(found: Table, column: str, snapshot: Snapshot) -> Iterator[date | None]:
    for manifest in snapshot.manifests(found.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        position = _day_position(found, column, manifest.partition_spec_id)
        for entry in manifest.fetch_manifest_entry(found.io, discard_deleted=False):
            if entry.status != ManifestEntryStatus.EXISTING:
                value = entry.data_file.partition[position] if position is not None else None
                yield _EPOCH + timedelta(value) if isinstance(value, int) else value


def _day_position(found: Table, column: str, spec_id: int) -> int | None:
    source = found.schema().find_field(column)
    for position, field in enumerate(found.specs()[spec_id].fields):
        by_day = isinstance(field.transform, DayTransform)
        by_date = isinstance(field.transform, IdentityTransform) and str(source.field_type) == "date"
        if field.source_id == source.field_id and (by_day or by_date):
            return position
    return None
