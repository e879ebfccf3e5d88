"""The one way to main: a single catalog commit that asserts what was audited."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from lakehouse.batch import TableWrite
from lakehouse.catalog import MAIN, OUTCOME_UNKNOWN, CatalogUnreachable, catalog, coverage, history, ref_snapshot, table
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval
from lakehouse.naming import AUDIT_BRANCH, COVERAGE
from lakehouse.settings import settings


class MainMoved(LakehouseError):
    """Somebody else committed to main since the batch was written: it must be written again on the new base."""


def publish(write: TableWrite, covers: Interval | None = None, properties: Mapping[str, str] | None = None) -> None:
    """Make `head` the table's main, drop the branch, add `covers` to its coverage: all or nothing.

    A second call with the same write finds its own success and does nothing. `MainMoved` is raised, and nothing
    changed, when main is no longer at `base`.
    """
    found = _loaded(write)
    if published(found, write, covers):
        return
    try:
        catalog().commit_table(found, _requirements(found, write), _updates(found, write, covers, properties or {}))
    except CommitFailedException as error:
        # The answer to a commit that succeeded may have been lost, and this the refusal of its repetition.
        if not published(_loaded(write), write, covers):
            raise MainMoved(f"{write.table}: {error}") from error
    except OUTCOME_UNKNOWN as error:
        if not published(_loaded(write), write, covers):
            raise CatalogUnreachable(f"the catalog at {settings().catalog_uri} did not confirm the publish") from error


def check_publishable(write: TableWrite) -> None:
    """`MainMoved` where publishing it would fail: before the first of several tables, not between them."""
    found = _loaded(write)
    if ref_snapshot(found) != write.base and not published(found, write, None):
        raise MainMoved(f"{write.table}: main is not where the batch was written on")


def published(found: Table, write: TableWrite, covers: Interval | None) -> bool:
    """Whether main already holds `head`, and covers the interval."""
    if covers is not None and covers not in coverage(found):
        return False
    return write.head is None or any(s.snapshot_id == write.head for s in history(found, ref_snapshot(found)))


def _loaded(write: TableWrite) -> Table:
    found = table(write.table)
    if found is None:
        raise MainMoved(f"{write.table} is gone")
    return found


def _requirements(found: Table, write: TableWrite) -> tuple[TableRequirement, ...]:
    main = AssertRefSnapshotId(ref=MAIN, **{"snapshot-id": write.base})
    head = AssertRefSnapshotId(ref=write.branch, **{"snapshot-id": write.head})
    same = AssertTableUUID(uuid=found.metadata.table_uuid)
    return (same, main) if write.empty else (same, main, head)


def _updates(
    found: Table, write: TableWrite, covers: Interval | None, properties: Mapping[str, str]
) -> tuple[TableUpdate, ...]:
    updates: list[TableUpdate] = []
    if not write.empty and write.head is not None:
        head = {"ref-name": MAIN, "type": SnapshotRefType.BRANCH, "snapshot-id": write.head}
        updates.append(SetSnapshotRefUpdate(**head))
    if write.branch in found.metadata.refs:
        updates.append(RemoveSnapshotRefUpdate(**{"ref-name": write.branch}))
    wanted = dict(properties)
    if covers is not None:
        wanted[COVERAGE] = coverage(found).add(covers).dumps()
    if wanted:
        updates.append(SetPropertiesUpdate(updates=wanted))
    return tuple(updates)


def drop_branch(write: TableWrite) -> None:
    """Drop the branch of one write, if it is still there."""
    if write.branch:
        drop_branches(write.table, write.branch)


def drop_branches(name: str, prefix: str = AUDIT_BRANCH, before: datetime | None = None) -> list[str]:
    """Drop a table's audit branches that begin with `prefix`: what earlier tries of an interval left, or old ones."""
    found = table(name)
    if found is None:
        return []
    limit = before.timestamp() * 1000 if before else None
    stale = [
        ref
        for ref, to in found.metadata.refs.items()
        if ref.startswith(AUDIT_BRANCH) and ref.startswith(prefix) and _older(found, to.snapshot_id, limit)
    ]
    if stale:
        updates = tuple(RemoveSnapshotRefUpdate(**{"ref-name": ref}) for ref in stale)
        catalog().commit_table(found, (AssertTableUUID(uuid=found.metadata.table_uuid),), updates)
    return stale


def _older(found: Table, snapshot_id: int, limit: float | None) -> bool:
    snapshot = found.snapshot_by_id(snapshot_id)
    return limit is None or snapshot is None or snapshot.timestamp_ms < limit
