"""That maintenance took nothing along: each version that it made has the rows of the one before, and all its files."""

from __future__ import annotations

from itertools import takewhile

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakehouse.catalog import history, ref_snapshot, table
from lakehouse.errors import LakehouseError
from lakehouse.health.measured import records_of, rows_of
from lakehouse.maintenance.reachable import FilesMissing
from lakehouse.maintenance.reachable import check as check_files
from lakehouse.provenance import is_maintenance, lets_go

_VECTORS = 3  # from this format on, deletes go in the same commit as the rows that they name
_LOOKS = 3  # at files of versions that another maintenance may be expiring


class RowsChanged(LakehouseError):
    """Maintenance must never change a row."""


def there(name: str) -> Table:
    """A table that maintenance is at work on, as it is now."""
    found = table(name)
    if found is None:
        raise RowsChanged(f"{name} is gone; it was there a moment ago")
    return found


def own_versions(found: Table, since: int | None) -> list[Snapshot]:
    """What maintenance has made of main since; somebody who knows of no lease may have committed in between."""
    newer = takewhile(lambda one: one.snapshot_id != since, history(found, ref_snapshot(found)))
    return [one for one in newer if is_maintenance(one)]


def check_rows(name: str, found: Table, since: int | None) -> None:
    """`RowsChanged` where a version of maintenance has not as many rows as the one before.

    One that lets old rows go was compared with the one before, file by file, when it was published. One whose parent
    has expired by now cannot be compared any more.
    """
    for one in own_versions(found, since):
        parent = found.snapshot_by_id(one.parent_snapshot_id or 0)
        if parent is None or lets_go(one):
            continue
        was, most, now = rows_of(parent), rows_of(parent), rows_of(one)
        if found.metadata.format_version < _VECTORS and was < records_of(parent):
            # The rows that deletes name may be gone, and the deletes still be counted: another commit removes them.
            most, now = records_of(parent), records_of(one)
        if not was <= now <= most:
            raise RowsChanged(
                f"{name} had {was} rows before maintenance, should have as many after it, and has {now} in version "
                f"{one.snapshot_id}; roll it back"
            )


def all_there(name: str, left: Table) -> int:
    """How many files the table's versions name, all of which are there, but for versions that expire meanwhile."""
    for _ in range(_LOOKS - 1):
        try:
            return check_files(name, left)
        except (FilesMissing, FileNotFoundError):
            named = {one.snapshot_id for one in left.metadata.snapshots}
            left = there(name)
            if named <= {one.snapshot_id for one in left.metadata.snapshots}:
                raise
    return check_files(name, left)
