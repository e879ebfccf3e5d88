"""Rows of bronze that are past their time: which they are, and how they go.

They go as whole files, by the day that they came for: no data is read, and no Spark is needed. A version without them
is made on a branch, compared with main file by file, and published in a commit that asserts main. Its summary says what
it is, and the same commit sets the table's `rows_from`: readers know from it that what is older is not all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from lakehouse import naming
from lakehouse.batch import TableWrite
from lakehouse.catalog import ref_snapshot, rows_from
from lakehouse.contracts.model import Contract
from lakehouse.errors import LakehouseError
from lakehouse.health.entries import Entry, live_entries
from lakehouse.health.measured import rows_of
from lakehouse.health.model import TableHealth
from lakehouse.jobs import Maintained
from lakehouse.ledger import batches
from lakehouse.publish import drop_branches, publish

BY = "_ingestion_date"
_EPOCH = date(1970, 1, 1)
_File = tuple[int, Entry]


class NotOnlyOldRows(LakehouseError):
    """More would go than rows that are past their time; nothing was published."""


@dataclass(frozen=True)
class Going:
    """What is past its time: all before a day."""

    before: date
    rows: int
    files: int
    bytes: int


def limit(contract: Contract, name: str, now: datetime) -> date | None:
    """The day before which rows of a table are past their time, by the end of their interval; None: they never are.

    A row's day is that on which its interval began, and those of earlier days ended before the next one begins. What
    was taken while the schedule or the time zone was another one is as old as the interval that it had.
    """
    kept = contract.retention.rows
    if not kept or name != contract.dataset:
        return None
    old = now - kept
    young = [one.interval_start for one in batches.published(name) if one.of_interval and one.interval_end > old]
    return min(one.date() for one in (contract.interval_ending_by(old).end, *young))


def going(health: TableHealth, before: date | None) -> Going | None:
    """What of a table is older than that, by its health; None where nothing is."""
    old = [one for one in health.partitions if before and ended(one.ends, before)]
    if before is None or not old:
        return None
    rows = sum(one.rows - one.deleted_rows for one in old)
    return Going(before, rows, sum(one.files for one in old), sum(one.bytes for one in old))


def ended(ends: datetime | None, before: date) -> bool:
    """Whether a partition that ends then holds nothing but rows of earlier days."""
    return ends is not None and ends <= datetime.combine(before, time.min, UTC)


def let_go(name: str, found: Table, before: date, mark: str, held: Callable[[], str]) -> Maintained:
    """Take the old files out of the table, if nothing else goes with them; nothing where they are `held` by somebody.

    Call it under the lease. What may go is fixed by `found`, before anybody is asked.
    """
    base, files = ref_snapshot(found), list(_old_files(name, found, before))
    if base is None or not files or held():
        return Maintained(counters={})
    branch = f"{naming.AUDIT_BRANCH}old_rows_{naming.digest(mark)}"
    told = {naming.ROWS_FROM: max(before, rows_from(found) or before).isoformat()}
    try:
        found.manage_snapshots().create_branch(base, branch).commit()
        with found.transaction() as change, change.update_snapshot(told, branch).overwrite() as version:
            for file in files:
                version.delete_data_file(file)
        head = ref_snapshot(found.refresh(), branch)
        write = TableWrite(table=name, branch=branch, base=base, head=head)
        counters = _compared(found, write, before)
        if held():
            return Maintained(counters={})
        publish(write, properties=told)
    finally:
        drop_branches(name, branch)
    return Maintained(counters=counters)


def _old_files(name: str, found: Table, before: date) -> Iterator[DataFile]:
    """The data files of days before that one; none may have deletes, which nothing of the platform writes to bronze."""
    for manifest in _manifests(found, ref_snapshot(found)):
        if manifest.content != ManifestContent.DATA:
            raise LakehouseError(f"{name} has rows that somebody deleted; its old rows stay")
        position = _position(found, found.specs()[manifest.partition_spec_id])
        if any(_is_old(one.partition, position, before) for one in live_entries(manifest, found.io)):
            for entry in manifest.fetch_manifest_entry(found.io, discard_deleted=True):
                if _is_old(entry.data_file.partition, position, before):
                    yield entry.data_file


def _compared(found: Table, write: TableWrite, before: date) -> dict[str, int]:
    """What goes, in rows and files; `NotOnlyOldRows` where a file of a later time goes, or one comes."""
    was, now = _files(found, write.base, write.head), _files(found, write.head, write.base)
    if came := now - was:
        raise NotOnlyOldRows(f"{write.table}: {len(came)} files would come where old ones should only go")
    gone = list((was - now).elements())
    kept = [one.path for spec, one in gone if not _is_old(one.partition, _position(found, found.specs()[spec]), before)]
    if kept:
        raise NotOnlyOldRows(f"{write.table}: {len(kept)} files with rows of {before} or later would go: {kept[0]}")
    rows = rows_of(found.snapshot_by_id(write.base or 0)) - rows_of(found.snapshot_by_id(write.head or 0))
    return {"rows": rows, "data_files": len(gone), "bytes": sum(entry.bytes for _, entry in gone)}


def _position(found: Table, spec: PartitionSpec) -> int | None:
    """Where in a partition the day is told; None where it is not, and its files stay."""
    source = found.schema().find_field(BY).field_id
    fields = enumerate(spec.fields)
    return next((n for n, f in fields if f.source_id == source and isinstance(f.transform, IdentityTransform)), None)


def _is_old(partition: Any, position: int | None, before: date) -> bool:
    day = None if position is None else partition[position]
    return day is not None and (day if isinstance(day, date) else _EPOCH + timedelta(days=day)) < before


def _files(found: Table, of: int | None, other: int | None) -> Counter[_File]:
    """The live files of a version, but for those in manifests that another version has, too."""
    shared = {one.manifest_path for one in _manifests(found, other)}
    mine = [one for one in _manifests(found, of) if one.manifest_path not in shared]
    return Counter((one.partition_spec_id, entry) for one in mine for entry in live_entries(one, found.io))


def _manifests(found: Table, version: int | None) -> Iterator[ManifestFile]:
    snapshot = found.snapshot_by_id(version or 0)
    yield from snapshot.manifests(found.io) if snapshot else ()
