"""Which rows and landing files have a lifetime that is over. Decides; touches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lakehouse.contracts.fields import write_duration
from lakehouse.contracts.keeping import Retention
from lakehouse.health.model import PartitionHealth, TableHealth
from lakehouse.jobs import Call
from lakehouse.maintenance.step import Step

_MOST_TOGETHER = 50


def old_rows(table: str, kept: Retention, found: TableHealth, now: datetime) -> Iterator[Step]:
    """Partitions whose time ended before the lifetime of rows began: they go whole, and no other row does."""
    if kept.rows is None:
        return
    limit = now - kept.rows
    old = [one for one in found.partitions if one.ends and one.ends <= limit and one.where and one.files]
    for first in range(0, len(old), _MOST_TOGETHER):
        yield _end(table, kept, old[first : first + _MOST_TOGETHER])


def _end(table: str, kept: Retention, group: list[PartitionHealth]) -> Step:
    age = write_duration(kept.rows) if kept.rows else ""
    rows = sum(one.rows - one.deleted_rows for one in group)
    names = group[0].name if len(group) == 1 else f"{group[0].name} to {group[-1].name}"
    return Step(
        table=table,
        operation="delete_rows",
        reason=f"the rows of {names} are older than the {age} that the contract keeps",
        does=f"Deletes these {rows} rows, by taking whole partitions out of the table. Nothing is read or rewritten; "
        "older versions still have them until these are forgotten.",
        partitions=tuple(one.name for one in group),
        rows_from=max(one.ends for one in group if one.ends),
        call=Call(procedure="delete_rows", where=" OR ".join(f"({one.where})" for one in group)),
    )


def old_landing_files(dataset: str, kept: Retention, count: int) -> Iterator[Step]:
    """Landing files that were ingested long ago."""
    if kept.landing is None or not count:
        return
    done = "Moves them to _archive/ in the same bucket" if kept.archive else "Deletes them"
    yield Step(
        table=dataset,
        operation="remove_landing_files",
        reason=f"{count} landing files were ingested more than {write_duration(kept.landing)} ago",
        does=f"{done}, unless one has other content than was ingested. Their rows are in the table.",
    )
