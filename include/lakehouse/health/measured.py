"""Measuring a table: its manifests are read one after the other, and only sums are kept."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from lakehouse.catalog import history, ref_snapshot
from lakehouse.health.entries import live_entries
from lakehouse.health.model import PartitionHealth, TableHealth
from lakehouse.health.partitions import described
from lakehouse.provenance import is_maintenance

TARGET = 128 << 20
# Below this share of the target a file is small, above that one large, which Iceberg's own rewrite takes, too.
# Two files of less than half fit into one, wherever they can be cut: packing leaves fewer of them, and comes to rest.
SMALL, LARGE = 0.5, 1.8
# Each reader holds one manifest: more of them wait for the store together, and cost a manifest's memory each.
_READERS = 4
_Key = tuple[int, tuple[Any, ...]]


@dataclass
class _Group:
    """The sums of one partition; eight bytes a file."""

    sizes: array[int] = field(default_factory=lambda: array("q"))
    rows: int = 0
    delete_files: int = 0
    delete_bytes: int = 0
    deleted_rows: int = 0
    deletes_of_one_file: int = 0
    manifests: int = 0
    dropped_files: int = 0
    dropped_bytes: int = 0

    def add(self, other: _Group) -> None:
        self.sizes.extend(other.sizes)
        self.rows += other.rows
        self.delete_files += other.delete_files
        self.delete_bytes += other.delete_bytes
        self.deleted_rows += other.deleted_rows
        self.deletes_of_one_file += other.deletes_of_one_file
        self.manifests += other.manifests
        self.dropped_files += other.dropped_files
        self.dropped_bytes += other.dropped_bytes


def health(found: Table, target_bytes: int = TARGET) -> TableHealth:
    """A table's health by main's newest snapshot. Reads manifests; no data file is opened."""
    snapshot = found.snapshot_by_id(ref_snapshot(found) or 0)
    manifests = [one for one in snapshot.manifests(found.io) if _alive(one)] if snapshot else []
    groups = _grouped(manifests, found.io, dropped_columns(found))
    partitions = tuple(_partition(found, key, group, target_bytes) for key, group in groups.items())
    sizes = sorted(size for group in groups.values() for size in group.sizes)
    return TableHealth(
        files=len(sizes),
        bytes=sum(sizes),
        rows=rows_of(snapshot),
        median_bytes=_quantile(sizes, 0.5),
        p95_bytes=_quantile(sizes, 0.95),
        small_files=sum(one.small_files for one in partitions),
        delete_files=sum(one.delete_files for one in partitions),
        delete_bytes=sum(one.delete_bytes for one in partitions),
        deleted_rows=sum(one.deleted_rows for one in partitions),
        files_to_open=fmean([one.files + one.delete_files for one in partitions] or [0]),
        amplification=fmean([one.amplification for one in partitions] or [1]),
        manifests=len(manifests),
        manifest_bytes=sum(one.manifest_length for one in manifests),
        target_bytes=target_bytes,
        partitions=tuple(sorted(partitions, key=lambda one: one.name)),
        **_of_metadata(found, snapshot),
    )


def _of_metadata(found: Table, snapshot: Snapshot | None) -> dict[str, Any]:
    """What the catalog's answer says, without any manifest."""
    refs = found.metadata.refs.values()
    tagged = {ref.snapshot_id for ref in refs if ref.snapshot_ref_type == SnapshotRefType.TAG}
    times = [s.timestamp_ms for s in found.metadata.snapshots if s.snapshot_id not in tagged]
    return {
        "snapshots": len(times),
        "oldest_snapshot_ms": min(times, default=None),
        "branches": sum(ref.snapshot_ref_type == SnapshotRefType.BRANCH for ref in refs),
        "tags": sum(ref.snapshot_ref_type == SnapshotRefType.TAG for ref in refs),
        "metadata_bytes": len(found.io.new_input(found.metadata_location)) if found.metadata_location else 0,
        "written_at": _written_at(found, snapshot),
        "last_with_dropped": _last_with(found, dropped_columns(found)),
        "format_version": found.metadata.format_version,
        "snapshot_id": snapshot.snapshot_id if snapshot else None,
    }


def _written_at(found: Table, snapshot: Snapshot | None) -> datetime | None:
    """When rows last changed. Maintenance changes none: it must not make a stale table look fresh."""
    line = history(found, snapshot.snapshot_id) if snapshot else []
    newest = next((one for one in line if not is_maintenance(one)), None)
    return datetime.fromtimestamp(newest.timestamp_ms / 1000, UTC) if newest else None


def rows_of(snapshot: Snapshot | None) -> int:
    """The rows of a version as a reader counts them: a deletion vector removes some of files that still count them."""
    return records_of(snapshot) - _total(snapshot, "position-deletes")


def records_of(snapshot: Snapshot | None) -> int:
    """The rows in a version's files, deleted ones too."""
    return _total(snapshot, "records")


def _total(snapshot: Snapshot | None, what: str) -> int:
    totals: Mapping[str, str] = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    return int(totals.get(f"total-{what}", 0))


def _alive(manifest: ManifestFile) -> bool:
    return manifest.has_added_files() or manifest.has_existing_files()


def dropped_columns(found: Table) -> frozenset[int]:
    """The ids of columns that the table once had, and has no more."""
    ids = {number for schema in found.metadata.schemas for number in schema.field_ids}
    return frozenset(ids - set(found.schema().field_ids))


def _last_with(found: Table, columns: frozenset[int]) -> datetime | None:
    """When the newest version was written that had one of these columns; None where no such version is known."""
    having = {schema.schema_id for schema in found.metadata.schemas if columns & set(schema.field_ids)}
    times = [one.timestamp_ms for one in found.metadata.snapshots if one.schema_id in having]
    return datetime.fromtimestamp(max(times) / 1000, UTC) if times else None


def _grouped(manifests: Sequence[ManifestFile], io: FileIO, dropped: frozenset[int]) -> dict[_Key, _Group]:
    groups: dict[_Key, _Group] = {}
    with ThreadPoolExecutor(_READERS, thread_name_prefix="manifests") as readers:
        for part in readers.map(lambda one: _sums(one, io, dropped), manifests):
            for key, sums in part.items():
                groups.setdefault(key, _Group()).add(sums)
    return groups


def _sums(manifest: ManifestFile, io: FileIO, dropped: frozenset[int]) -> dict[_Key, _Group]:
    """One manifest's sums by partition."""
    groups: dict[_Key, _Group] = {}
    for entry in live_entries(manifest, io, with_columns=bool(dropped)):
        group = groups.setdefault((manifest.partition_spec_id, entry.partition), _Group(manifests=1))
        if entry.is_data:
            group.sizes.append(entry.bytes)
            group.rows += entry.rows
            if dropped & entry.columns:
                group.dropped_files += 1
                group.dropped_bytes += entry.bytes
        else:
            group.delete_files += 1
            group.delete_bytes += entry.bytes
            group.deleted_rows += entry.rows
            group.deletes_of_one_file += entry.of_one
    return groups


def _partition(found: Table, key: _Key, group: _Group, target_bytes: int) -> PartitionHealth:
    spec_id, values = key
    told = described(found.specs()[spec_id], found.schema(), values)
    sizes = sorted(group.sizes)
    small = [size for size in sizes if size < SMALL * target_bytes]
    large = [size for size in sizes if size > LARGE * target_bytes]
    return PartitionHealth(
        name=told.name,
        where=told.where,
        ends=told.ends,
        files=len(sizes),
        bytes=sum(sizes),
        rows=group.rows,
        median_bytes=_quantile(sizes, 0.5),
        p95_bytes=_quantile(sizes, 0.95),
        small_files=max(0, len(small) - 1),
        small_bytes=sum(small),
        large_files=len(large),
        large_bytes=sum(large),
        delete_files=group.delete_files,
        delete_bytes=group.delete_bytes,
        deleted_rows=group.deleted_rows,
        deletes_of_one_file=group.deletes_of_one_file,
        manifests=group.manifests,
        needed_files=max(1, -(-sum(sizes) // target_bytes)),
        dropped_files=group.dropped_files,
        dropped_bytes=group.dropped_bytes,
    )


def _quantile(ordered: Sequence[int], share: float) -> int:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
