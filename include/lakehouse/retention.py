"""What is kept longer than a table's own retention says, and what is not kept any longer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertTableUUID, RemoveSnapshotRefUpdate, SetSnapshotRefUpdate, TableUpdate

from lakehouse.catalog import catalog, history, ref_snapshot, table
from lakehouse.contracts.model import Contract
from lakehouse.errors import LakehouseError
from lakehouse.ledger import leases
from lakehouse.maintenance.expiry import bounds
from lakehouse.naming import INPUT_TAG, INPUTS, dag_id, versions_of
from lakehouse.provenance import origin
from lakehouse.publish import drop_branches

# Who gives a version a name needs no longer than a commit; who expires some, seconds.
PATIENCE_SECONDS = 60.0


class VersionsBusy(LakehouseError):
    """Somebody is expiring versions of the table, or giving one a name that keeps it."""


@contextmanager
def versions_at_rest(name: str, owner: str, attempt: str, patience: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Within the block nobody else expires a table's versions or names one: a commit of expiry drops names silently.

    It is no lease of the dataset: a writer does not wait for it, nor it for a writer.
    """
    right, until = versions_of(name), time.monotonic() + patience
    while not leases.acquire(right, owner, attempt):
        if time.monotonic() > until:
            raise VersionsBusy(f"old versions of {name} are being expired just now; try again in a minute")
        time.sleep(0.2)
    try:
        with leases.kept(right, owner, attempt):
            yield
    finally:
        leases.release(right, owner, attempt)


def drop_old_branches(contract: Contract, name: str, now: datetime) -> list[str]:
    """Drop the branches of failed audits that nobody has looked at for the contract's days."""
    return drop_branches(name, before=now - contract.retention.branches)


def keep_inputs(dataset: str, contracts: Sequence[Contract], now: datetime, *, all_known: bool) -> None:
    """Tag the versions that published ones of other datasets were made from, for as long as these are retained.

    Expiry honours tags, whoever calls it. Tags whose reason is gone are taken away; those of a reader without a
    contract only if all contracts are known, for one with a mistake in it is no reason. Call it under the lease.
    """
    found = table(dataset)
    if found is None:
        return
    needed = dict(_needed(found, dataset, contracts, now))
    known = {name for name in found.metadata.refs if name.startswith(INPUT_TAG)}
    readers = tuple(_tag(contract.dataset, "") for contract in contracts)
    stale = {name for name in known - needed.keys() if all_known or name.startswith(readers)}
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate(**{"ref-name": name}) for name in stale]
    for name in needed.keys() - known:
        tag = {"ref-name": name, "type": SnapshotRefType.TAG, "snapshot-id": needed[name]}
        updates.append(SetSnapshotRefUpdate(**tag))
    if updates:
        catalog().commit_table(found, (AssertTableUUID(uuid=found.metadata.table_uuid),), tuple(updates))


def _needed(found: Table, dataset: str, contracts: Iterable[Contract], now: datetime) -> Iterator[tuple[str, int]]:
    """Tag and snapshot of each version that a retained one names."""
    for contract in contracts:
        reader = _reader(contract, dataset)
        for snapshot_id in _retained(contract, reader, now) if reader else ():
            source = origin(reader, snapshot_id) if reader else None
            used = source.inputs.get(dataset) if source else None
            if used is not None and found.snapshot_by_id(used) is not None:
                yield _tag(contract.dataset, used), used


def _reader(contract: Contract, dataset: str) -> Table | None:
    """The table of another dataset of which some version was made from this one, whatever its contract reads by now."""
    found = table(contract.dataset) if contract.inputs and contract.dataset != dataset else None
    told = [one.summary.get(INPUTS) or "" for one in found.metadata.snapshots if one.summary] if found else []
    return found if any(f'"{dataset}"' in inputs for inputs in told) else None


def _tag(reader: str, snapshot: object) -> str:
    # A dot, for no name of a dataset has one after its layer: gold_sales is not the beginning of gold_sales_daily.
    return f"{INPUT_TAG}{dag_id(reader)}.{snapshot}"


def _retained(contract: Contract, reader: Table, now: datetime) -> list[int]:
    """The versions of main that expiry leaves: the newest, and those young enough."""
    line = history(reader, ref_snapshot(reader))
    limit, last = bounds(reader.metadata, contract.retention, now)
    oldest = limit.timestamp() * 1000
    return [one.snapshot_id for place, one in enumerate(line) if place < last or one.timestamp_ms >= oldest]
