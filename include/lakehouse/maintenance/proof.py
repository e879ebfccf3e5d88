"""That maintenance changed no row: each version that it made is compared with the one before it."""

from __future__ import annotations

from itertools import takewhile

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakehouse.catalog import history, ref_snapshot
from lakehouse.errors import LakehouseError
from lakehouse.health.measured import records_of, rows_of
from lakehouse.provenance import is_maintenance, lets_go

_VECTORS = 3  # from this format on, deletes go in the same commit as the rows that they name


class RowsChanged(LakehouseError):
    """Maintenance must never change a row."""


def own_versions(found: Table, since: int | None) -> list[Snapshot]:
    """What maintenance has made of main since; somebody who knows of no lease may have committed in between."""
    newer = takewhile(lambda one: one.snapshot_id != since, history(found, ref_snapshot(found)))
    return [one for one in newer if is_maintenance(one)]


def check_rows(name: str, found: Table, since: int | None) -> None:
    """`RowsChanged` where a version of maintenance has not as many rows as the one before.

    One that lets old rows go was compared with the one before, file by file, when it was published.
    """
    for one in own_versions(found, since):
        if lets_go(one):
            continue
        parent = found.snapshot_by_id(one.parent_snapshot_id or 0)
        was, most, now = rows_of(parent), rows_of(parent), rows_of(one)
        if found.metadata.format_version < _VECTORS and was < records_of(parent):
            # The rows that deletes name may be gone, and the deletes still be counted: another commit removes them.
            most, now = records_of(parent), records_of(one)
        if not was <= now <= most:
            raise RowsChanged(
                f"{name} had {was} rows before maintenance, should have as many after it, and has {now} in version "
                f"{one.snapshot_id}; roll it back"
            )
