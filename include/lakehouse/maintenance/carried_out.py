"""Carrying a plan out: each step under the lease, which is given back in between; before and after are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from lakehouse import jobs, naming
from lakehouse.catalog import catalog, table
from lakehouse.contracts.load import loaded
from lakehouse.contracts.model import AnyContract
from lakehouse.errors import LakehouseError
from lakehouse.health import TableHealth, health
from lakehouse.health.score import score, told
from lakehouse.jobs import Call, Maintained, MaintainJob
from lakehouse.ledger import leases
from lakehouse.ledger import maintenance as log
from lakehouse.ledger.database import now as ledger_time
from lakehouse.maintenance.narrowed import narrowed
from lakehouse.maintenance.orphans import check_allowed, confirm
from lakehouse.maintenance.proof import RowsChanged, check_rows, own_versions
from lakehouse.maintenance.reachable import check as check_files
from lakehouse.maintenance.step import Step
from lakehouse.plan import Attempt, settle
from lakehouse.retention import drop_old_branches, keep_inputs
from lakehouse.steps import LeaseHeld, take_lease

RunJob = Callable[[MaintainJob], None]
Clock = Callable[[], datetime]
_LISTED = 100  # of the files that a procedure names, this many are kept in the ledger


@dataclass(frozen=True)
class Done:
    """What a step answered, and the table before and after it."""

    before: TableHealth
    after: TableHealth
    answer: Maintained
    read: int
    written: int


class LeaseLost(LakehouseError):
    """Somebody else may write the dataset by now."""


def carry_out(
    contract: AnyContract,
    steps: Sequence[Step],
    attempt: Attempt,
    run: RunJob,
    pause: float = 0.0,
    clock: Clock = ledger_time,
) -> Iterator[str]:
    """Take the steps one after the other; a line for each that is done.

    The lease is held for one step at a time. In between it is free for `pause` seconds, so that a writer waits for a
    step, not for all of them. `LeaseHeld` is raised where somebody is writing: the rest is for another time.
    `LeaseLost` where the lease was lost during a step, and a later try of the same run is not taken over from.
    """
    with _leased(contract.dataset, attempt):
        tidied = list(_tidy(contract, clock))
    yield from tidied
    for number, step in enumerate(steps):
        if number:
            time.sleep(pause)
        with _leased(contract.dataset, attempt, take_over=False):
            line = _take(contract, step, number, attempt, run, clock)
            ours = leases.renew(contract.dataset, attempt.run, attempt.id)
        yield line
        if not ours:
            raise _lost(contract.dataset)


@contextmanager
def _leased(dataset: str, attempt: Attempt, *, take_over: bool = True) -> Iterator[None]:
    take_lease(dataset, attempt, take_over=take_over)
    try:
        with leases.kept(dataset, attempt.run, attempt.id):
            yield
    finally:
        leases.release(dataset, attempt.run, attempt.id)


def _lost(dataset: str) -> LeaseLost:
    return LeaseLost(f"maintenance of {dataset} stops: its lease was lost, and somebody else may be writing")


def _tidy(contract: AnyContract, clock: Clock) -> Iterator[str]:
    """What needs no Spark, and no plan."""
    _keep(contract, clock)
    for name in contract.tables:
        for ref in drop_old_branches(contract, name, clock()):
            yield f"{name}: dropped {ref}, the branch of a batch that failed its audit"


def _keep(contract: AnyContract, clock: Clock) -> None:
    """What must be right before any version expires; a writer may have died since the last step."""
    # A batch whose publish is not confirmed is looked for among the snapshots.
    settle(contract.dataset)
    everything = loaded()
    known = list(everything.contracts.values())
    keep_inputs(contract.dataset, known, clock(), all_known=not everything.problems)


def _take(contract: AnyContract, step: Step, number: int, attempt: Attempt, run: RunJob, clock: Clock) -> str:
    """One step, with its row in the ledger, whatever becomes of it."""
    policy, retention = contract.maintenance, contract.retention
    before, started = _health(step.table, policy.target_bytes), time.monotonic()
    points = score(before, policy, retention, clock()).total
    if step.operation == "expire_snapshots":
        _keep(contract, clock)
    step = narrowed(step, contract, _table(step.table).metadata, clock())
    row = log.begin(step.table, step.operation, step.reason, before, points)
    try:
        done = _done(step, before, _answer(contract, step, number, attempt, run), policy.target_bytes)
        checked = _proven(step, done)
    except Exception as error:
        log.close(row, f"failed: {error}", time.monotonic() - started)
        raise
    after = score(done.after, policy, retention, clock()).total
    log.close(
        row,
        log.DONE,
        time.monotonic() - started,
        after=done.after.without_partitions().model_dump(mode="json"),
        score_after=after,
        bytes_read=done.read,
        bytes_written=done.written,
        files_checked=checked,
        detail={**done.answer.counters, "files": list(done.answer.files[:_LISTED])},
    )
    return _line(step, done, points, after)


def _answer(contract: AnyContract, step: Step, number: int, attempt: Attempt, run: RunJob) -> Maintained:
    """Do it: by the catalog alone, or by Spark."""
    if step.operation == "set_properties":
        return _set_properties(step.table, step.properties)
    if step.operation == "remove_orphan_files":
        return _remove_orphans(contract.dataset, step, number, attempt, run)
    return _called(contract.dataset, step.table, _call(step), f"{step.operation}-{number}", attempt, run)


def _call(step: Step) -> Call:
    if step.call is None:
        raise ValueError(f"{step.table}: {step.operation} needs a call, and the plan gave none")
    return step.call


def _set_properties(name: str, properties: dict[str, str]) -> Maintained:
    found = _table(name)
    same = AssertTableUUID(uuid=found.metadata.table_uuid)
    catalog().commit_table(found, (same,), (SetPropertiesUpdate(updates=properties),))
    return Maintained(counters={"properties": len(properties)})


def _remove_orphans(dataset: str, step: Step, number: int, attempt: Attempt, run: RunJob) -> Maintained:
    """List first, look at the list by other means, and only then remove."""
    verb, call = f"{step.operation}-{number}", _call(step)
    listed = _called(dataset, step.table, call, f"{verb}-list", attempt, run)
    if not listed.files:
        return listed
    found = _table(step.table)
    check_allowed(step.table, found)
    confirm(step.table, found, listed.files)
    return _called(dataset, step.table, call.model_copy(update={"dry_run": False}), verb, attempt, run)


def _called(dataset: str, name: str, call: Call, verb: str, attempt: Attempt, run: RunJob) -> Maintained:
    """One of Iceberg's procedures, as a Spark job, if the lease is still ours."""
    if not leases.renew(dataset, attempt.run, attempt.id):
        raise _lost(dataset)
    verb = f"{verb}-{naming.dag_id(name)}"
    job = MaintainJob(
        key=naming.job_key(dataset, attempt.id, verb),
        session_id=attempt.session(verb),
        stale_sessions=attempt.stale_sessions(verb),
        table=name,
        call=call,
    )
    jobs.hand_over(job)
    run(job)
    return jobs.maintained(job.key)


def _done(step: Step, before: TableHealth, answer: Maintained, target_bytes: int) -> Done:
    """The table as it is now, and what maintenance's own versions since then read and wrote."""
    found = _table(step.table)
    read = written = 0
    for one in own_versions(found, before.snapshot_id):
        summary = one.summary.additional_properties if one.summary else {}
        read += int(summary.get("removed-files-size", 0))
        written += int(summary.get("added-files-size", 0))
    return Done(before, health(found, target_bytes), answer, read, written)


def _proven(step: Step, done: Done) -> int:
    """No row more or less than before, and every file that a version names is there; returns how many these are."""
    found = _table(step.table)
    check_rows(step.table, found, done.before.snapshot_id)
    return check_files(step.table, found)


def _health(name: str, target_bytes: int) -> TableHealth:
    return health(_table(name), target_bytes)


def _table(name: str) -> Table:
    found = table(name)
    if found is None:
        raise RowsChanged(f"{name} is gone; it was there a moment ago")
    return found


def _line(step: Step, done: Done, before: int, after: int) -> str:
    told_of = {
        "rewrite_data_files": f"files {done.before.files} → {done.after.files}, {told(done.written)} written",
        "rewrite_manifests": f"lists of files {done.before.manifests} → {done.after.manifests}",
        "expire_snapshots": f"versions {done.before.snapshots} → {done.after.snapshots}",
        "remove_orphan_files": f"{len(done.answer.files)} files removed",
        "set_properties": f"{len(step.properties)} settings changed",
    }
    return (
        f"{step.table}: {step.operation}, for {step.reason}: {told_of[step.operation]}, "
        f"rows {done.before.rows} → {done.after.rows}, score {before} → {after}"
    )


__all__ = ["Done", "LeaseHeld", "LeaseLost", "RowsChanged", "carry_out"]
