"""Real Iceberg tables in a folder: a catalog in SQLite, metadata on disk. Data files are only named."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

MEGABYTE = 1 << 20
DAY = date(2026, 1, 1)
SCHEMA = Schema(
    NestedField(1, "order_id", LongType(), required=True),
    NestedField(2, "ordered_at", TimestamptzType(), required=True),
    NestedField(3, "region", StringType(), required=False),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ordered_at_day"))
NO_SPEC = PartitionSpec()


def catalog(folder: Path) -> SqlCatalog:
    made = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    made.create_namespace_if_not_exists("silver")
    return made


def made(folder: Path, spec: PartitionSpec = BY_DAY, name: str = "silver.orders") -> Table:
    """An empty table."""
    return catalog(folder).create_table(name, SCHEMA, partition_spec=spec)


def with_versions(folder: Path, count: int) -> Table:
    """A table of so many versions, each with a file more than the one before."""
    table = made(folder)
    for number in range(count):
        append(table, [file(str(number), 5)])
    return table


def file(name: str, size: int, day: date | None = DAY, rows: int = 10, metrics: int = 0) -> DataFile:
    """A data file as a manifest names it, with metrics of so many columns."""
    columns = range(1, metrics + 1)
    partition = Record((day - date(1970, 1, 1)).days) if day else Record()
    found = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"s3://lake/silver/orders/data/{name}.parquet",
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=rows,
        file_size_in_bytes=size,
        column_sizes=dict.fromkeys(columns, 100),
        value_counts=dict.fromkeys(columns, rows),
        null_value_counts=dict.fromkeys(columns, 0),
        nan_value_counts={},
        lower_bounds=dict.fromkeys(columns, b"\x00" * 8),
        upper_bounds=dict.fromkeys(columns, b"\xff" * 8),
        split_offsets=[4],
    )
    found.spec_id = 1 if day else 0
    return found


def append(table: Table, files: Iterable[DataFile], **summary: str) -> None:
    """One commit with these files, as a writer would make it."""
    with table.transaction() as change, change.update_snapshot(snapshot_properties=summary).fast_append() as added:
        for one in files:
            one.spec_id = table.spec().spec_id
            added.append_data_file(one)


def replace(table: Table, **summary: str) -> None:
    """A version with the same files, as a rewrite leaves it; PyIceberg itself has no such operation."""
    known = table.current_snapshot()
    assert known is not None
    changed = {
        "snapshot_id": known.snapshot_id + 1,
        "parent_snapshot_id": known.snapshot_id,
        "sequence_number": (known.sequence_number or 0) + 1,
        "timestamp_ms": known.timestamp_ms + 60_000,
        "summary": Summary(Operation.REPLACE, **{**_totals(known), **summary}),
    }
    moved = {"ref-name": "main", "type": SnapshotRefType.BRANCH, "snapshot-id": known.snapshot_id + 1}
    updates = (AddSnapshotUpdate(snapshot=known.model_copy(update=changed)), SetSnapshotRefUpdate(**moved))
    table.catalog.commit_table(table, (), updates)
    table.refresh()


def _totals(snapshot: Snapshot) -> dict[str, str]:
    return dict(snapshot.summary.additional_properties) if snapshot.summary else {}


def versions(table: Table) -> list[int]:
    return [one.snapshot_id for one in table.metadata.snapshots]


def set_ref(table: Table, name: str, kind: SnapshotRefType, snapshot_id: int, **more: int) -> None:
    update = SetSnapshotRefUpdate(**{"ref-name": name, "type": kind, "snapshot-id": snapshot_id, **more})
    table.catalog.commit_table(table, (), (update,))
    table.refresh()


def days(count: int) -> list[date]:
    return [DAY + timedelta(days=n) for n in range(count)]


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
