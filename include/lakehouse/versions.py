"""Which version of a table somebody means: a branch or tag, a snapshot id, or a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from lakehouse.catalog import ref_snapshot, table
from lakehouse.errors import LakehouseError, suggest


class NoVersion(LakehouseError, LookupError):
    """The table was never like that, or is no longer known as it was."""


def existing(name: str) -> Table:
    """A table that must be there."""
    found = table(name)
    if found is None:
        raise NoVersion(f"no table '{name}'; write its layer and name, such as gold.daily_sales")
    return found


def version(name: str, found: Table, at: str | None) -> int:
    """The snapshot that `at` means, main's if it is left out."""
    known = ref_snapshot(found) if at is None else named(found, at)
    if known is not None:
        return known
    when = moment(at) if at else None
    if when is None:
        raise NoVersion(nowhere({name: found}, at) if at else f"{name} holds nothing yet")
    return main_at(name, found, when)


def named(found: Table, at: str) -> int | None:
    """The snapshot that a branch, a tag or an id names."""
    snapshot = found.snapshot_by_id(int(at)) if at.isdecimal() else None
    return ref_snapshot(found, at) or (snapshot.snapshot_id if snapshot else None)


def is_tag(found: Table, at: str) -> bool:
    """Whether a table has a tag of this name: a version that somebody relies on."""
    ref = found.metadata.refs.get(at)
    return ref is not None and ref.snapshot_ref_type == SnapshotRefType.TAG


def moment(at: str) -> datetime | None:
    """An ISO time, in UTC unless it says otherwise. A long number is a snapshot id, not a time."""
    try:
        when = datetime.fromisoformat(at) if not at.isdecimal() else None
    except ValueError:
        return None
    return when.replace(tzinfo=when.tzinfo or UTC) if when else None


def main_at(name: str, found: Table, when: datetime) -> int:
    """The snapshot that main pointed to at that time, by the table's own log of it."""
    earlier = [entry for entry in found.history() if entry.timestamp_ms <= when.timestamp() * 1000]
    if not earlier or found.snapshot_by_id(earlier[-1].snapshot_id) is None:
        first = next((datetime.fromtimestamp(e.timestamp_ms / 1000, UTC) for e in found.history()), None)
        known = f"; the oldest that is kept is of {first.isoformat(timespec='seconds')}" if first else ""
        raise NoVersion(f"{name} has no version of {when.isoformat(timespec='seconds')}{known}")
    return int(earlier[-1].snapshot_id)


def nowhere(tables: Mapping[str, Table], at: str) -> str:
    """That none of the tables has such a version, in a sentence."""
    refs = {ref for found in tables.values() for ref in found.metadata.refs}
    who = " and ".join(tables) or "a query without a table"
    has = "has" if len(tables) < 2 else "have"
    return f"{who} {has} no branch, tag or snapshot '{at}', and it is no ISO time{suggest(at, refs)}"
