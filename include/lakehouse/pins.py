"""Pins: names for versions that maintenance keeps, for training sets, audits and holds. A pin is an Iceberg tag."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
)

from lakehouse.catalog import MAIN, catalog, ref_snapshot, table
from lakehouse.errors import LakehouseError
from lakehouse.identities import acting_as
from lakehouse.naming import AUDIT_BRANCH, INPUT_TAG, ROLLBACK_TAG
from lakehouse.provenance import origin
from lakehouse.retention import versions_at_rest
from lakehouse.roles import Role
from lakehouse.versions import existing, version

# Tags of other kinds.
_OTHERS = (INPUT_TAG, ROLLBACK_TAG)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class PinError(LakehouseError):
    """The pin cannot be set or taken away."""


@dataclass(frozen=True)
class Pin:
    """A named version of a dataset, and until when it is kept; None: until it is unpinned."""

    dataset: str
    name: str
    snapshot: int
    until: datetime | None


@acting_as(Role.MAINTENANCE)
def pin(dataset: str, name: str, keep: timedelta | None, at: str | None = None, *, with_inputs: bool) -> list[Pin]:
    """Name a version, and with it, if asked, the versions of its inputs that it was made from, however far back.

    None of them is expired meanwhile, nor was one before: each is looked up when expiry is at rest.
    """
    _check(name)
    found = existing(dataset)
    wanted = {dataset: version(dataset, found, at)}
    if with_inputs:
        _add_inputs(dataset, found, wanted)
    owner = f"pin/{uuid4().hex}"
    with ExitStack() as held:
        for one in sorted(wanted):
            held.enter_context(versions_at_rest(one, owner, owner))
        tables = {one: existing(one) for one in wanted}
        for one, there in tables.items():
            known = there.metadata.refs.get(name)
            if known is not None and known.snapshot_id != wanted[one]:
                raise PinError(f"{one} has a pin '{name}' on another version, {known.snapshot_id}; unpin it first")
        return [_set(one, there, name, wanted[one], keep) for one, there in tables.items()]


def pins(datasets: list[str]) -> list[Pin]:
    """Every pin of these datasets."""
    return [
        Pin(dataset, name, ref.snapshot_id, _until(found, ref))
        for dataset in datasets
        if (found := table(dataset)) is not None
        for name, ref in sorted(found.metadata.refs.items())
        if _is_pin(name, ref)
    ]


@acting_as(Role.MAINTENANCE)
def unpin(dataset: str, name: str) -> None:
    """Take a pin away; the version goes when its retention says so."""
    found = existing(dataset)
    ref = found.metadata.refs.get(name)
    if ref is None or not _is_pin(name, ref):
        known = ", ".join(one.name for one in pins([dataset])) or "none"
        raise PinError(f"{dataset} has no pin '{name}'; it has {known}")
    same = AssertRefSnapshotId(ref=name, **{"snapshot-id": ref.snapshot_id})
    catalog().commit_table(found, (_same(found), same), (RemoveSnapshotRefUpdate(**{"ref-name": name}),))


def _check(name: str) -> None:
    if not _NAME.fullmatch(name) or name == MAIN or name.startswith((AUDIT_BRANCH, *_OTHERS)):
        raise PinError(f"'{name}' is no name for a pin; use letters, digits and _ . -, such as training-2026-01")
    if name.isdecimal():
        raise PinError(f"'{name}' would be taken for a snapshot id; add a letter")


def _add_inputs(dataset: str, found: Table, wanted: dict[str, int]) -> None:
    """The inputs that a version names, and theirs."""
    source = origin(found, wanted[dataset])
    if source is None or (not source.inputs and not dataset.startswith("bronze.")):
        raise PinError(f"{dataset}: version {wanted[dataset]} does not say what it was made from")
    for name, snapshot in source.inputs.items():
        there = existing(name)
        if snapshot is None or name in wanted:
            continue
        if there.snapshot_by_id(snapshot) is None:
            raise PinError(f"{dataset} was made from version {snapshot} of {name}, which has expired")
        wanted[name] = snapshot
        _add_inputs(name, there, wanted)


def _set(dataset: str, found: Table, name: str, snapshot_id: int, keep: timedelta | None) -> Pin:
    """Iceberg counts a tag's age from its snapshot's time, not from when it was set."""
    snapshot = found.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise PinError(f"{dataset} has no version {snapshot_id} any more")
    now = datetime.now(UTC)
    until = now + keep if keep else None
    age = {"max-ref-age-ms": int(until.timestamp() * 1000) - snapshot.timestamp_ms} if until else {}
    tag = SetSnapshotRefUpdate(**{"ref-name": name, "type": SnapshotRefType.TAG, "snapshot-id": snapshot_id, **age})
    as_before = AssertRefSnapshotId(ref=name, **{"snapshot-id": ref_snapshot(found, name)})
    catalog().commit_table(found, (_same(found), as_before), (tag,))
    return Pin(dataset, name, snapshot_id, until)


def _same(found: Table) -> TableRequirement:
    return AssertTableUUID(uuid=found.metadata.table_uuid)


def _is_pin(name: str, ref: SnapshotRef) -> bool:
    return ref.snapshot_ref_type == SnapshotRefType.TAG and not name.startswith(_OTHERS)


def _until(found: Table, ref: SnapshotRef) -> datetime | None:
    snapshot = found.snapshot_by_id(ref.snapshot_id)
    if ref.max_ref_age_ms is None or snapshot is None:
        return None
    return datetime.fromtimestamp((snapshot.timestamp_ms + ref.max_ref_age_ms) / 1000, UTC)
