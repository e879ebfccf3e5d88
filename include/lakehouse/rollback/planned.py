"""What going to another version means: the tables that move, the batches that this undoes or does again.

What a batch wrote is in the ledger, for each of its tables: the version before and the version after. Snapshots alone
do not tell: some carry no batch, and a batch may have changed companions only, or nothing at all.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import takewhile

from pyiceberg.table import Table

from lakehouse import naming
from lakehouse.batch import PUBLISHED, UNDONE, Batch, TableWrite
from lakehouse.catalog import coverage, history, ref_snapshot, rows_from, table
from lakehouse.contracts.model import AnyContract, Bronze, Silver
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval, is_gone, shown
from lakehouse.landing import not_there
from lakehouse.landing_cleared import lost
from lakehouse.ledger import batches, landing_gone, taken_files
from lakehouse.ledger.landing_gone import ABSENT, BEGUN, Gone
from lakehouse.ledger.rollbacks import Move, Rollback
from lakehouse.provenance import batch_of, is_maintenance, origin
from lakehouse.versions import existing, version


class CannotRollBack(LakehouseError):
    """The dataset cannot go to that version; the message says why."""


def plan(contract: AnyContract, to: str) -> Rollback:
    """What going to that version means. Nothing is changed."""
    own = existing(contract.dataset)
    target, main = version(contract.dataset, own, to), ref_snapshot(own)
    if target == main:
        raise CannotRollBack(f"{contract.dataset} is at {target} already")
    if target not in _ever_main(own):
        raise CannotRollBack(f"{contract.dataset} never was at {target}: it is a part of a batch, or failed its audit")
    line = {one.snapshot_id for one in history(own, main)}
    known = list(reversed(batches.settled(contract.dataset)))
    if target in line:
        undone, redone = _undone(contract.dataset, own, target, known), []
    else:
        undone, redone = [], _redone(contract.dataset, own, target, known)
    _can_be_built_again(contract, undone)
    kept = {batch.batch_id for batch in known if batch.state == PUBLISHED and batch not in undone}
    # Those that the batches wrote: today's contract may not have them any more.
    companions = [name for name in naming.tables_of(contract.dataset) if name != contract.dataset]
    moves = [_companion(name, undone, redone, kept) for name in companions]
    return Rollback(
        dataset=contract.dataset,
        moves=(*(move for move in moves if move), Move(table=contract.dataset, before=main, after=target)),
        undone=tuple(batch.batch_id for batch in undone),
        redone=tuple(batch.batch_id for batch in redone),
        properties=_properties(contract, own, target, undone, redone, known),
    )


def _can_be_built_again(contract: AnyContract, undone: Sequence[Batch]) -> None:
    """`CannotRollBack` where what is undone was made from files, or from rows of bronze, that have gone."""
    if isinstance(contract, Bronze) and (files := files_lost(contract.dataset, _files_gone(contract.dataset, undone))):
        raise CannotRollBack(_cleared(contract.dataset, files))
    source = contract.reads if isinstance(contract, Silver) else contract.dataset
    kept_from = rows_from(table(source)) if isinstance(contract, Bronze | Silver) else None
    gone = sorted(batch.interval for batch in undone if batch.of_interval and is_gone(batch.interval, kept_from))
    if gone:
        raise CannotRollBack(
            f"{contract.dataset}: {shown(gone[0], contract.timezone)} would be undone and could not be built again, "
            f"for {source} has let its rows from before {kept_from} go; go to a later version"
        )


def _files_gone(dataset: str, undone: Sequence[Batch]) -> list[Gone]:
    """What they took and is gone: as the ledger knows, or as folders say that were cleared after an older ledger.

    What was begun to go is looked for, as its going may have come to nothing.
    """
    ids = [batch.batch_id for batch in undone]
    known, taken = landing_gone.taken_by(ids), taken_files.taken_by(ids)
    missing = lost({one.uri for one in taken})
    absent = [one for one in taken if one.uri in missing]
    return [
        *(row for row in known if row.state != BEGUN),
        *not_there(row for row in known if row.state == BEGUN),
        *(Gone(dataset, one.batch_id, one.uri, "", one.etag, one.bytes, "", ABSENT) for one in absent),
    ]


def files_lost(dataset: str, gone: Sequence[Gone]) -> list[Gone]:
    """Of files that went, those in force: in place of one that was corrected since, its correction is taken again."""
    known = taken_files.taken(dataset, {row.uri for row in gone}) if gone else {}
    return [row for row in gone if row.etag in (one.etag for one in known.get(row.uri, [])[:1])]


def _cleared(dataset: str, gone: Sequence[Gone]) -> str:
    kept = sorted({row.archived_to for row in gone} - {""})
    where = f"archived, such as {kept[0]}" if kept else "deleted, or are not there any more"
    return (
        f"{dataset}: {len({row.uri for row in gone})} landing files would have to be taken again, and were "
        f"{where}; go to a later version"
    )


def undone_intervals(rollback: Rollback) -> list[Interval]:
    """The intervals that are undone and can be built again."""
    return sorted({batch.interval for batch in batches.by_id(rollback.undone) if batch.of_interval})


def written(batch: Batch, name: str) -> TableWrite | None:
    """What a batch wrote to a table, if anything."""
    return next((write for write in batch.writes if write.table == name and not write.empty), None)


def _ever_main(own: Table) -> set[int]:
    """The versions that main was at some time: whole states. Parts of a batch and failed audits never were."""
    return {entry.snapshot_id for entry in own.history()}


def _undone(dataset: str, own: Table, target: int, known: Sequence[Batch]) -> list[Batch]:
    """The published batches from the first that leaves main on: also those after it that changed no row of it."""
    leaving = list(takewhile(lambda one: one.snapshot_id != target, history(own, ref_snapshot(own))))
    published = [batch for batch in known if batch.state == PUBLISHED]
    ids = {batch.batch_id for batch in published}
    if strange := [batch for one in leaving if (batch := batch_of(one)) and batch not in ids]:
        raise CannotRollBack(f"{dataset}: main holds batch {strange[0]}, which the ledger does not know; restore it")
    # One that found all of its rows there already was written on a version that leaves, too.
    gone = {one.snapshot_id for one in leaving if not is_maintenance(one)}
    first = next((n for n, batch in enumerate(published) if _own(batch, dataset).head in gone), None)
    return [] if first is None else published[first:]


def _own(batch: Batch, dataset: str) -> TableWrite:
    return next(write for write in batch.writes if write.table == dataset)


def _redone(dataset: str, own: Table, target: int, known: Sequence[Batch]) -> list[Batch]:
    """The undone batches that lead from main to a later version, without a gap, and those between that changed no row.

    A batch that was undone on the way, and had another built in its place, is none of them.
    """
    by_head = {w.head: batch for batch in known if batch.state == UNDONE and (w := written(batch, dataset))}
    others = {one.snapshot_id: one.parent_snapshot_id for one in own.metadata.snapshots if batch_of(one) is None}
    steps: list[Batch] = []
    path = {ref_snapshot(own)}
    at: int | None = target
    while at != ref_snapshot(own):
        path.add(at)
        batch = by_head.get(at)
        before = written(batch, dataset) if batch else None
        if batch is not None and before is not None:
            steps.append(batch)
            at = before.base
        elif at in others and at in _ever_main(own):  # compaction, or a commit of somebody else's
            at = others[at]
        else:
            raise CannotRollBack(
                f"{dataset}: nothing leads from main to {target} but what was never undone, or has expired; "
                "go to a version that `lakehouse snapshots` shows in main, or forward to one that was undone"
            )
    if not steps:
        return []
    lines = _lines_of_companions(dataset, steps)
    until = known[: known.index(steps[0]) + 1]
    return [b for b in until if b in steps or (b.state == UNDONE and _on_the_way(b, dataset, path, lines))]


def _lines_of_companions(dataset: str, steps: Sequence[Batch]) -> dict[str, set[int]]:
    """For each companion that these batches wrote: the versions that lead to the last of them. Newest batch first."""
    last = {w.table: w.head for batch in reversed(steps) for w in batch.writes if w.table != dataset and not w.empty}
    return {name: {one.snapshot_id for one in history(existing(name), head)} for name, head in last.items()}


def _on_the_way(batch: Batch, dataset: str, path: Collection[int | None], lines: dict[str, set[int]]) -> bool:
    """Whether a batch that changed no row of the dataset lies on its way, with all that it wrote to companions."""
    own = _own(batch, dataset)
    others = [write for write in batch.writes if write.table != dataset and not write.empty]
    return own.empty and own.base in path and all(write.head in lines.get(write.table, ()) for write in others)


def _companion(name: str, undone: Sequence[Batch], redone: Sequence[Batch], kept: Collection[str]) -> Move | None:
    """Where a companion goes: to before the first that is undone, or to after the last that is done again."""
    writes = [write for batch in (*undone, *redone) if (write := written(batch, name))]
    if not writes:
        return None
    found = existing(name)
    main, before = ref_snapshot(found), _without_failed_tries(found, writes[0].base, kept)
    if undone:
        return Move(table=name, before=main, after=before)
    after = writes[-1].head
    if main not in (writes[0].base, before):
        raise CannotRollBack(f"{name} has changed since it was rolled back; run the intervals again instead")
    if after is not None and found.snapshot_by_id(after) is None:
        raise CannotRollBack(f"{name}: its version {after} has expired, which belongs to that")
    return Move(table=name, before=main, after=after)


def _without_failed_tries(found: Table, base: int | None, kept: Collection[str]) -> int | None:
    """The newest version up to `base` that holds only batches that main keeps.

    A try whose publish was cut short may have published companions before: its successor was written on top of them.
    """
    line = history(found, base)
    if base is not None and not line:
        raise CannotRollBack(f"{found.name()[-1]}: its version {base} has expired, which belongs to that")
    failed_tries = {b.batch_id for b in batches.by_id({batch_of(one) or "" for one in line})} - set(kept)
    doubtful = list(takewhile(lambda one: batch_of(one) in {None, *failed_tries}, line))
    failed = [place for place, one in enumerate(doubtful) if batch_of(one)]
    clean = line[failed[-1] + 1 :] if failed else line
    if not clean and line and line[-1].parent_snapshot_id is not None:
        raise CannotRollBack(f"{found.name()[-1]}: its version {line[-1].parent_snapshot_id} has expired")
    return clean[0].snapshot_id if clean else None


def _properties(
    contract: AnyContract,
    own: Table,
    target: int,
    undone: Sequence[Batch],
    redone: Sequence[Batch],
    known: Sequence[Batch],
) -> dict[str, str]:
    """Coverage without the intervals that are undone, and, for gold, what the version was built from."""
    covered = coverage(own)
    stay = {batch.interval for batch in known if batch.state == PUBLISHED and batch not in undone}
    for batch in undone:
        if batch.of_interval and batch.interval not in stay:
            covered = covered.remove(batch.interval)
    for batch in redone:
        if batch.of_interval:
            covered = covered.add(batch.interval)
    found = {naming.COVERAGE: covered.dumps()}
    if contract.layer == "gold":
        source = origin(own, target)
        absorbed = {"contract": source.contract, "inputs": source.inputs} if source else {}
        found[naming.ABSORBED] = json.dumps(absorbed)
    return found
