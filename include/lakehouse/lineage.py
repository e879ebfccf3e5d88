"""Lineage: a version, the versions it was made from, and theirs, as their own summaries tell."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.catalog import table
from lakehouse.provenance import origin


@dataclass(frozen=True)
class Node:
    """A version of a dataset in the tree of what another was made from."""

    dataset: str
    snapshot: int | None
    known: bool
    batch_id: str
    contract: str
    code: str
    inputs: tuple[Node, ...]


def lineage(dataset: str, snapshot_id: int | None) -> Node:
    """The version and all that it was made from. One that has expired is a leaf, and says so."""
    found = table(dataset)
    there = found is not None and snapshot_id is not None and found.snapshot_by_id(snapshot_id) is not None
    source = origin(found, snapshot_id) if found is not None and there else None
    return Node(
        dataset=dataset,
        snapshot=snapshot_id,
        known=there or snapshot_id is None,
        batch_id=source.batch_id if source else "",
        contract=source.contract if source else "",
        code=source.code if source else "",
        inputs=tuple(lineage(name, one) for name, one in sorted(source.inputs.items())) if source else (),
    )
