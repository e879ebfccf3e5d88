"""Carrying a rollback out to its end: whoever takes the lease next finishes what was cut short, or takes it back."""

from __future__ import annotations

import logging
from collections.abc import Sequence

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

from lakehouse.catalog import MAIN, OUTCOME_UNKNOWN, CatalogUnreachable, catalog, history, ref_snapshot
from lakehouse.ledger import rollbacks
from lakehouse.ledger.rollbacks import Move, Rollback
from lakehouse.naming import ROLLBACK_TAG
from lakehouse.rollback.planned import CannotRollBack
from lakehouse.settings import settings
from lakehouse.versions import existing

log = logging.getLogger(__name__)


def apply(rollback: Rollback, by: str, why: str) -> None:
    """Carry it out: companions, the dataset's own table last, the ledger. Call it under the lease."""
    number = rollbacks.intend(rollback, by, why)
    for one in rollback.moves:
        _set_tag(one, number)
    for one in rollback.moves:
        move(one, number, rollback.properties if one.table == rollback.dataset else {})
    rollbacks.confirm(number, rollback)


def finish_all(dataset: str) -> None:
    """Finish, or take back, what was begun and not confirmed. Call it under the lease."""
    for number, rollback in rollbacks.unfinished(dataset):
        if _has_moved(rollback.moves[-1], number):
            rollbacks.confirm(number, rollback)
        elif _is_half_way(rollback, number):
            for one in rollback.moves:
                move(one, number, rollback.properties if one.table == dataset else {})
            rollbacks.confirm(number, rollback)
        else:
            log.warning("%s: a rollback that was cut short is given up", dataset)
            _take_back(rollback, number)
            rollbacks.abandon(number)


def _tag(number: int) -> str:
    return f"{ROLLBACK_TAG}{number}"


def _set_tag(one: Move, number: int) -> None:
    """Whoever gives the rollback up takes the tag away: a commit that is still on its way then comes to nothing."""
    found = existing(one.table)
    tag = {"ref-name": _tag(number), "type": SnapshotRefType.TAG, "snapshot-id": one.after or one.before}
    catalog().commit_table(found, (_same(found),), (SetSnapshotRefUpdate(**tag),))


def _has_moved(own: Move, number: int) -> bool:
    """Whether the dataset's own table went where it should; somebody may have committed on top of that since."""
    found = existing(own.table)
    line = {one.snapshot_id for one in history(found, ref_snapshot(found))}
    if _tag(number) in found.metadata.refs or own.after not in line:
        return False
    forward = any(one.snapshot_id == own.before for one in history(found, own.after))
    return forward or own.before not in line


def _is_half_way(rollback: Rollback, number: int) -> bool:
    """Whether some tables have moved, and those that have not still can."""
    tables = [existing(one.table) for one in rollback.moves]
    left = [_tag(number) in found.metadata.refs for found in tables]
    wanted = [one.before if waits else one.after for one, waits in zip(rollback.moves, left, strict=True)]
    return not all(left) and [ref_snapshot(found) for found in tables] == wanted


def _take_back(rollback: Rollback, number: int) -> None:
    """First no table can move any more, then those that have go back to where they were."""
    for one in rollback.moves:
        found = existing(one.table)
        if _tag(number) in found.metadata.refs:
            catalog().commit_table(found, (_same(found),), (RemoveSnapshotRefUpdate(**{"ref-name": _tag(number)}),))
    for one in rollback.moves[:-1]:
        if ref_snapshot(existing(one.table)) == one.after:
            back = Move(table=one.table, before=one.after, after=one.before)
            _commit(back, (), _main_at(back.after))


def move(one: Move, number: int, properties: dict[str, str]) -> None:
    """Bring main of one table from one version to another, unless that is done; the tag goes in the same commit."""
    found = existing(one.table)
    if _tag(number) not in found.metadata.refs and ref_snapshot(found) == one.after:
        return
    still = AssertRefSnapshotId(ref=_tag(number), **{"snapshot-id": one.after or one.before})
    updates = [*_main_at(one.after), RemoveSnapshotRefUpdate(**{"ref-name": _tag(number)})]
    if properties:
        updates.append(SetPropertiesUpdate(updates=properties))
    _commit(one, (still,), updates)


def _main_at(snapshot: int | None) -> list[TableUpdate]:
    if snapshot is None:
        return [RemoveSnapshotRefUpdate(**{"ref-name": MAIN})]
    return [SetSnapshotRefUpdate(**{"ref-name": MAIN, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot})]


def _commit(one: Move, asserted: tuple[TableRequirement, ...], updates: Sequence[TableUpdate]) -> None:
    found = existing(one.table)
    expected = AssertRefSnapshotId(ref=MAIN, **{"snapshot-id": one.before})
    try:
        catalog().commit_table(found, (_same(found), expected, *asserted), tuple(updates))
    except CommitFailedException as error:
        if ref_snapshot(existing(one.table)) != one.after:
            raise CannotRollBack(f"{one.table} was changed by somebody else meanwhile: {error}") from error
    except OUTCOME_UNKNOWN as error:
        if ref_snapshot(existing(one.table)) != one.after:
            raise CatalogUnreachable(f"the catalog at {settings().catalog_uri} did not confirm the rollback") from error


def _same(found: Table) -> TableRequirement:
    return AssertTableUUID(uuid=found.metadata.table_uuid)
