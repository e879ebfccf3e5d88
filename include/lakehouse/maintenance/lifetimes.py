"""Rows that are past their time: which they are, who has yet to take them, and how they go.

They go by whole partitions, on a branch that is compared with main, file by file, before it is published. The commit
that publishes it also sets the table's `rows_from`: readers know from it that what is older is not all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, YearTransform
from pyiceberg.types import DateType

from lakehouse import jobs, naming
from lakehouse.batch import TableWrite
from lakehouse.catalog import ref_snapshot
from lakehouse.contracts.model import Contract
from lakehouse.errors import LakehouseError
from lakehouse.health.entries import Entry, live_entries
from lakehouse.health.measured import rows_of
from lakehouse.health.model import TableHealth
from lakehouse.health.partitions import described
from lakehouse.jobs import LetGoJob, Maintained
from lakehouse.maintenance.step import Step
from lakehouse.publish import drop_branches, publish

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


def limit(contract: Contract, name: str, found: Table, now: datetime) -> date | None:
    """The day before which rows of a table are past their time; None where they never are.

    A day with which a partition begins, so that whole partitions go. None, too, where the table has files that are
    not parted by this time.
    """
    kept, column = contract.retention.rows, contract.lives_by(name)
    if kept is None or column is None:
        return None
    day = (now - kept).astimezone(UTC).date()
    firsts = [_first_day(found, spec, column, day) for spec in found.specs().values()]
    return min((first for first in firsts if first), default=None) if all(firsts) else None


def going(health: TableHealth, before: date | None) -> Going | None:
    """What of a table is older than that, by its health; None where nothing is."""
    if before is None:
        return None
    old = [one for one in health.partitions if is_old(one.ends, before)]
    if not old:
        return None
    rows = sum(one.rows - one.deleted_rows for one in old)
    return Going(before, rows, sum(one.files for one in old), sum(one.bytes for one in old))


def is_old(ends: datetime | None, before: date) -> bool:
    """Whether a partition that ends then holds nothing but rows of earlier days."""
    return ends is not None and ends <= _midnight(before)


def let_go(found: Table, step: Step, column: str, job: dict[str, Any], run: Any) -> Maintained:
    """Take the old rows out of the table, if nothing else goes with them. Call it under the lease."""
    if step.rows_from is None:
        return Maintained(counters={})
    branch = f"{naming.AUDIT_BRANCH}{naming.dag_id(step.table)}_old_rows_{naming.digest(job['key'])}"
    base = ref_snapshot(found)
    asked = LetGoJob(
        **job,
        table=step.table,
        where=f"{naming.quoted(column)} < {_literal(found, column, step.rows_from)}",
        branch=branch,
        bases={step.table: base},
        provenance={naming.ROWS_FROM: step.rows_from.isoformat()},
    )
    jobs.hand_over(asked)
    try:
        run(asked)
        (write,) = jobs.written(asked.key).writes
        counters = _compared(found.refresh(), write, step.rows_from)
        publish(write, properties={naming.ROWS_FROM: step.rows_from.isoformat()})
    finally:
        drop_branches(step.table, branch)
    return Maintained(counters=counters)


def _compared(found: Table, write: TableWrite, before: date) -> dict[str, int]:
    """What goes, in rows and files; `NotOnlyOldRows` where a file of a later time goes, or one comes."""
    was, now = _files(found, write.base, write.head), _files(found, write.head, write.base)
    if came := now - was:
        raise NotOnlyOldRows(f"{write.table}: {len(came)} files would come where old ones should only go")
    gone = list((was - now).elements())
    wrong = [entry.path for spec, entry in gone if not is_old(_ends(found, spec, entry), before)]
    if wrong:
        raise NotOnlyOldRows(f"{write.table}: {len(wrong)} files with rows of {before} or later would go: {wrong[0]}")
    rows = rows_of(found.snapshot_by_id(write.base or 0)) - rows_of(found.snapshot_by_id(write.head or 0))
    data = [entry for _, entry in gone if entry.is_data]
    return {"rows": rows, "files": len(data), "bytes": sum(entry.bytes for entry in data)}


def _ends(found: Table, spec: int, entry: Entry) -> datetime | None:
    return described(found.specs()[spec], found.schema(), entry.partition).ends


def _files(found: Table, of: int | None, other: int | None) -> Counter[_File]:
    """The live files of a version, but for those in manifests that another version has, too."""
    shared = {one.manifest_path for one in _manifests(found, other)}
    mine = [one for one in _manifests(found, of) if one.manifest_path not in shared]
    return Counter((one.partition_spec_id, entry) for one in mine for entry in live_entries(one, found.io))


def _manifests(found: Table, version: int | None) -> Iterator[Any]:
    snapshot = found.snapshot_by_id(version or 0)
    yield from snapshot.manifests(found.io) if snapshot else ()


def _first_day(found: Table, spec: PartitionSpec, column: str, day: date) -> date | None:
    """The first day of the partition that the day is in; None where partitions are not of that column's time."""
    source = found.schema().find_field(column)
    for field in spec.fields:
        if field.source_id != source.field_id:
            continue
        match field.transform:
            case YearTransform():
                return day.replace(month=1, day=1)
            case MonthTransform():
                return day.replace(day=1)
            case DayTransform() | HourTransform():
                return day
            case IdentityTransform() if isinstance(source.field_type, DateType):
                return day
    return None


def _literal(found: Table, column: str, day: date) -> str:
    is_date = isinstance(found.schema().find_field(column).field_type, DateType)
    return f"DATE '{day}'" if is_date else f"TIMESTAMP '{day} 00:00:00'"


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
