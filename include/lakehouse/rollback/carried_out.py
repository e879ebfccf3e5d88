"""Carrying a rollback out to its end: whoever takes the lease next finishes what was cut short, or takes it back."""

from __future__ import annotations

import logging

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from lakehouse.catalog import MAIN, OUTCOME_UNKNOWN, CatalogUnreachable, catalog, history, ref_snapshot
from lakehouse.ledger import rollbacks
from lakehouse.ledger.rollbacks import Move, Rollback
from lakehouse.rollback.planned import CannotRollBack
from lakehouse.settings import settings
from lakehouse.versions import existing

log = logging.getLogger(__name__)


def apply(rollback: Rollback, by: str, why: str) -> None:
    """Carry it out: companions, the dataset's own table last, the ledger. Call it under the lease."""
    number = rollbacks.intend(rollback, by, why)
    for one in rollback.moves:
        move(one, rollback.properties if one.table == rollback.dataset else {})
    rollbacks.confirm(number, rollback)


def finish_all(dataset: str) -> None:
    """Finish, or take back, what was begun and not confirmed. Call it under the lease."""
    for number, rollback in rollbacks.unfinished(dataset):
        *companions, own = rollback.moves
        places = [(one, _main(one.table)) for one in companions]
        moved = _has_moved(own)
        half_way = any(main == one.after for one, main in places) and all(
            main in (one.before, one.after) for one, main in places
        )
        if moved or (_main(own.table) == own.before and half_way):
            for one, main in places:
                if main == one.before:
                    move(one, {})
            if not moved:
                move(own, rollback.properties)
            rollbacks.confirm(number, rollback)
        else:
            log.warning("%s: a rollback that was cut short is given up", dataset)
            for one, main in places:
                if main == one.after:
                    move(Move(table=one.table, before=one.after, after=one.before), {})
            rollbacks.abandon(number)


def _has_moved(own: Move) -> bool:
    """Whether the dataset's own table went where it should; somebody may have committed on top of that since."""
    found = existing(own.table)
    line = {one.snapshot_id for one in history(found, ref_snapshot(found))}
    if own.after is None or own.after not in line:
        return ref_snapshot(found) == own.after
    forward = any(one.snapshot_id == own.before for one in history(found, own.after))
    return forward or own.before not in line


def _main(name: str) -> int | None:
    return ref_snapshot(existing(name))


def move(one: Move, properties: dict[str, str]) -> None:
    """Bring main of one table from one version to another, if it is still there."""
    found = existing(one.table)
    if ref_snapshot(found) == one.after:
        return
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate(**{"ref-name": MAIN})]
    if one.after is not None:
        main = {"ref-name": MAIN, "type": SnapshotRefType.BRANCH, "snapshot-id": one.after}
        updates = [SetSnapshotRefUpdate(**main)]
    if properties:
        updates.append(SetPropertiesUpdate(updates=properties))
    expected = AssertRefSnapshotId(ref=MAIN, **{"snapshot-id": one.before})
    try:
        catalog().commit_table(found, (AssertTableUUID(uuid=found.metadata.table_uuid), expected), tuple(updates))
    except CommitFailedException as error:
        if _main(one.table) != one.after:
            raise CannotRollBack(f"{one.table} was changed by somebody else meanwhile: {error}") from error
    except OUTCOME_UNKNOWN as error:
        if _main(one.table) != one.after:
            raise CatalogUnreachable(f"the catalog at {settings().catalog_uri} did not confirm the rollback") from error
