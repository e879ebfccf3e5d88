"""Small tables of a test's own, written by PyIceberg on the real catalog."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

from lakehouse.batch import TableWrite
from lakehouse.catalog import catalog, ref_snapshot, table


def make(name: str) -> Table:
    """An empty table with one column."""
    catalog().create_namespace_if_not_exists(name.split(".", maxsplit=1)[0])
    return catalog().create_table(name, pa.schema([("id", pa.int64())]))


def add(name: str, ids: Iterable[int], branch: str = "main", **summary: str) -> int:
    """Append rows to main or a branch; returns the snapshot's id."""
    found = loaded(name)
    rows = pa.table({"id": pa.array(list(ids), pa.int64())})
    found.append(rows, branch=branch, snapshot_properties=summary)
    return head(name, branch)


def write(name: str, ids: Iterable[int], branch: str = "audit_test", **summary: str) -> TableWrite:
    """Rows on a branch made from main's head, as a job leaves them."""
    base = ref_snapshot(loaded(name))
    if base is None:
        return TableWrite(table=name, branch=branch, base=None, head=_first(name, ids, branch, **summary))
    loaded(name).manage_snapshots().create_branch(base, branch).commit()
    return TableWrite(table=name, branch=branch, base=base, head=add(name, ids, branch, **summary))


def _first(name: str, ids: Iterable[int], branch: str, **summary: str) -> int:
    """PyIceberg writes a table's first snapshot to main only: hang it on the branch afterwards, as Spark would."""
    snapshot = add(name, ids, **summary)
    hang = {"ref-name": branch, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot}
    updates = (SetSnapshotRefUpdate(**hang), RemoveSnapshotRefUpdate(**{"ref-name": "main"}))
    catalog().commit_table(loaded(name), (), updates)
    return snapshot


def ids(name: str) -> list[int]:
    """What a reader of main sees."""
    found = loaded(name)
    snapshot = ref_snapshot(found)
    return sorted(found.scan(snapshot_id=snapshot).to_arrow()["id"].to_pylist()) if snapshot else []


def head(name: str, ref: str = "main") -> int:
    found = ref_snapshot(loaded(name), ref)
    assert found is not None
    return found


def loaded(name: str) -> Table:
    found = table(name)
    assert found is not None
    return found


def drop_namespace(name: str) -> None:
    """Take a test's own namespace away with all its tables, if it is there."""
    if catalog().namespace_exists(name):
        for made in catalog().list_tables(name):
            catalog().purge_table(made)
        catalog().drop_namespace(name)
