"""The health of a table, from its metadata alone."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from lakehouse.catalog import ref_snapshot


class TableHealth(BaseModel):
    """What main's newest snapshot says of the table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: int
    bytes: int
    rows: int
    delete_files: int
    snapshots: int = Field(description="Without those that a tag keeps.")
    oldest_snapshot_ms: int | None

    @property
    def average_file_bytes(self) -> int:
        return self.bytes // self.files if self.files else 0


def health(found: Table) -> TableHealth:
    """A table's health; reads the catalog's answer and nothing else."""
    snapshot = found.snapshot_by_id(ref_snapshot(found) or 0)
    totals: Mapping[str, str] = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    tagged = {ref.snapshot_id for ref in found.metadata.refs.values() if ref.snapshot_ref_type == SnapshotRefType.TAG}
    times = [s.timestamp_ms for s in found.metadata.snapshots if s.snapshot_id not in tagged]
    return TableHealth(
        files=int(totals.get("total-data-files", 0)),
        bytes=int(totals.get("total-files-size", 0)),
        # A deletion vector removes rows of files that still count them.
        rows=int(totals.get("total-records", 0)) - int(totals.get("total-position-deletes", 0)),
        delete_files=int(totals.get("total-delete-files", 0)),
        snapshots=len(times),
        oldest_snapshot_ms=min(times, default=None),
    )
