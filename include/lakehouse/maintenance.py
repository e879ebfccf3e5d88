"""Maintenance: look at the metadata, plan with reasons, act under the lease, record before and after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from sqlalchemy import func, insert

from lakehouse import jobs, naming
from lakehouse.catalog import table
from lakehouse.contracts.load import loaded
from lakehouse.contracts.model import AnyContract, Contract
from lakehouse.errors import LakehouseError
from lakehouse.health import TableHealth, health
from lakehouse.jobs import Call, MaintainJob
from lakehouse.ledger.database import engine
from lakehouse.ledger.database import maintenance as history
from lakehouse.naming import quoted
from lakehouse.plan import Attempt, settle
from lakehouse.retention import drop_old_branches, keep_inputs


class RowsChanged(LakehouseError):
    """Maintenance must never change a row."""


def plan(contract: Contract, state: TableHealth, now: datetime, *, companion: bool = False) -> list[Call]:
    """The procedures to call, each with its reason; none where the table is healthy.

    A companion of the dataset's own table has other columns: it is rewritten, but not sorted.
    """
    policy, calls = contract.maintenance, []
    small = state.files >= policy.min_input_files and _average(state) < policy.target_bytes * 3 // 4
    if small or state.delete_files:
        calls.append(_rewrite(contract, state, () if companion else policy.sort_by))
    oldest = state.oldest_snapshot_ms
    limit = now - contract.retention.history
    if oldest is not None and state.snapshots > contract.retention.keep_last and oldest < limit.timestamp() * 1000:
        calls.append(_expire(contract, state, limit))
    return calls


def _average(state: TableHealth) -> int:
    return state.bytes // state.files if state.files else 0


def _rewrite(contract: Contract, state: TableHealth, sort_by: Sequence[str]) -> Call:
    policy = contract.maintenance
    return Call(
        procedure="rewrite_data_files",
        reason=f"{state.files} files, {_average(state) >> 10} KiB on average, {state.delete_files} of deletes",
        options={
            "target-file-size-bytes": str(policy.target_bytes),
            "min-input-files": str(policy.min_input_files),
            "delete-file-threshold": "1",
            "remove-dangling-deletes": "true",
        },
        sort_order=", ".join(quoted(column) for column in sort_by) or None,
    )


def _expire(contract: Contract, state: TableHealth, limit: datetime) -> Call:
    return Call(
        procedure="expire_snapshots",
        reason=f"{state.snapshots} snapshots, the oldest past its retention of {contract.retention.snapshots}",
        older_than=limit,
        retain_last=contract.retention.keep_last,
    )


def maintain(contract: AnyContract, attempt: Attempt, run: Callable[[MaintainJob], None]) -> list[str]:
    """Keep a dataset's tables healthy. Call it under the lease; returns one line per call."""
    # A batch whose publish is not confirmed is looked for among the snapshots: before any of them expires.
    settle(contract.dataset)
    now = datetime.now(UTC)
    everything = loaded()
    keep_inputs(contract.dataset, list(everything.contracts.values()), now, all_known=not everything.problems)
    old = [f"{name}: dropped {ref}" for name in contract.tables for ref in drop_old_branches(contract, name, now)]
    return [*old, *(line for name in contract.tables for line in _maintain_table(contract, name, attempt, run))]


def _maintain_table(
    contract: AnyContract, name: str, attempt: Attempt, run: Callable[[MaintainJob], None]
) -> Iterator[str]:
    found = table(name)
    if found is None:
        return
    for call in plan(contract, health(found), datetime.now(UTC), companion=name != contract.dataset):
        before, started = _health(name), time.monotonic()
        verb = f"{call.procedure}-{naming.dag_id(name)}"
        job = MaintainJob(
            key=naming.job_key(contract.dataset, attempt.id, verb),
            session_id=attempt.session(verb),
            stale_sessions=attempt.stale_sessions(verb),
            table=name,
            call=call,
        )
        jobs.hand_over(job)
        run(job)
        after = _health(name)
        _record(name, call, before, after, time.monotonic() - started)
        yield (
            f"{name}: {call.procedure}, for it had {call.reason}: files {before.files} → {after.files}, "
            f"snapshots {before.snapshots} → {after.snapshots}, rows {before.rows} → {after.rows}"
        )


def _health(name: str) -> TableHealth:
    found = table(name)
    if found is None:
        raise RowsChanged(f"{name} is gone; it was there a moment ago")
    return health(found)


def _record(name: str, call: Call, before: TableHealth, after: TableHealth, seconds: float) -> None:
    """Keep what was done; a row more or less is an error, and is kept too."""
    same = before.rows == after.rows
    row = {
        "table_name": name,
        "operation": call.procedure,
        "reason": call.reason,
        "before": before.without_partitions().model_dump(mode="json"),
        "after": after.without_partitions().model_dump(mode="json"),
        "outcome": "done" if same else "rows changed",
        "seconds": seconds,
    }
    with engine().begin() as connection:
        connection.execute(insert(history).values(at=func.now(), **row))
    if not same:
        raise RowsChanged(
            f"{name} had {before.rows} rows before {call.procedure} and {after.rows} after it; roll it back"
        )
