"""Carrying a plan out: each step under the lease, which is given back in between; before and after are kept.

The lease is held for the step alone. What is measured before it, and proven after it, is read from versions of the
table that do not change any more, while others may write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pyiceberg.table import Table

from lakehouse.catalog import ref_snapshot, table
from lakehouse.contracts.load import loaded
from lakehouse.contracts.model import AnyContract
from lakehouse.errors import LakehouseError
from lakehouse.health import TableHealth, health
from lakehouse.health.score import Score, concerns, score
from lakehouse.jobs import Maintained
from lakehouse.ledger import health as measures
from lakehouse.ledger import leases
from lakehouse.ledger import maintenance as log
from lakehouse.ledger.database import now as ledger_time
from lakehouse.maintenance.acts import LeaseLost, RunJob, Tools, act, look_for_orphans, lost
from lakehouse.maintenance.clearing import settle_begun
from lakehouse.maintenance.landing_steps import stayed, went
from lakehouse.maintenance.narrowed import narrowed
from lakehouse.maintenance.orphans import NoOrphans, removed
from lakehouse.maintenance.proof import RowsChanged, check_rows, own_versions
from lakehouse.maintenance.reachable import FilesMissing
from lakehouse.maintenance.reachable import check as check_files
from lakehouse.maintenance.step import Step
from lakehouse.maintenance.turn import Busy, PutOff, WindowClosed
from lakehouse.maintenance.window import is_open
from lakehouse.plan import Attempt, settle
from lakehouse.provenance import lets_go
from lakehouse.retention import drop_old_branches, keep_inputs
from lakehouse.steps import LeaseHeld, leased
from lakehouse.wording import size

Clock = Callable[[], datetime]
_LISTED = 100  # of the files that a procedure names, this many are kept in the ledger
_LOOKS = 3  # at files of versions that another maintenance may be expiring


@dataclass
class Taken:
    """One step that is being taken: its row in the ledger, and the table before and after it."""

    step: Step
    before: TableHealth
    started: float = field(default_factory=time.monotonic)
    row: int | None = None
    answer: Maintained = field(default_factory=lambda: Maintained(counters={}))
    acting: bool = False  # it may have changed something
    left: Table | None = None  # as the step left it; others may have written since
    lease_seconds: float = 0.0
    ours: bool = True  # so the lease was, to the end
    line: str = ""  # what came of it

    @property
    def unwritten(self) -> int:
        """So many files could not be rewritten: Iceberg goes on without them, and only counts them."""
        return self.answer.counters.get("failed_data_files_count", 0)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


def carry_out(
    contract: AnyContract,
    steps: Sequence[Step],
    attempt: Attempt,
    run: RunJob,
    pause: float = 0.0,
    clock: Clock = ledger_time,
    *,
    window: str = "",
    start: int = 0,
    unwritten: int = 0,
) -> Iterator[str]:
    """Take the steps one after the other, from number `start` on; a line for each that is done.

    The lease is held for one step at a time. In between it is free for `pause` seconds, so that a writer waits for a
    step, not for all of them. `Busy` is raised where somebody is writing, and `WindowClosed` where a step would begin
    outside of the window: the rest is for another time. `LeaseLost` where the lease was lost during a step, and a
    later try of the same run is not taken over from. Files that could not be rewritten, be it in steps before `start`,
    make it fail in the end: all steps have had their turn by then.
    """
    left = list(enumerate(steps))[start:]
    try:
        yield from _tidied(contract, attempt, clock, start if left else None)
        for number, step in left:
            if number > start:
                time.sleep(pause)
            if window and not is_open(window, clock()):
                raise WindowClosed(f"it is not {window} UTC any more; {len(steps) - number} steps are left", number)
            taken = _take(contract, step, Tools(contract.dataset, attempt, run, number), clock)
            unwritten += taken.unwritten
            yield taken.line
            if not taken.ours:
                raise lost(contract.dataset)
    except PutOff as put_off:
        put_off.unwritten = unwritten
        raise
    if unwritten:
        raise LakehouseError(f"{contract.dataset}: {_not_rewritten(unwritten)}")


def _tidied(contract: AnyContract, attempt: Attempt, clock: Clock, first: int | None) -> list[str]:
    """What was tidied up under the lease. Where no step is to follow, a table that is being written needs nothing."""
    try:
        with leased(contract.dataset, attempt):
            return list(_tidy(contract, clock))
    except LeaseHeld as held:
        if first is not None:
            raise Busy(str(held), first) from held
        return [f"{contract.dataset}: what failed batches left is looked for another time: {held}"]


def _tidy(contract: AnyContract, clock: Clock) -> Iterator[str]:
    """What needs no Spark, and no plan."""
    _keep(contract, clock)
    if contract.layer == "bronze":
        settle_begun(contract.dataset)
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


def _take(contract: AnyContract, step: Step, tools: Tools, clock: Clock) -> Taken:
    """One step, with its row in the ledger, whatever becomes of it."""
    found = _table(step.table)
    taken = Taken(narrowed(step, contract, found.metadata, clock()), health(found, contract.maintenance.target_bytes))
    try:
        if step.operation == "remove_orphan_files":
            _look(contract, taken, found, tools, clock)
        with leased(contract.dataset, tools.attempt, take_over=False):
            begun = time.monotonic()
            taken.ours = _act(contract, taken, tools, clock)
            taken.lease_seconds = time.monotonic() - begun
        taken.line = _proven(contract, taken, clock())
    except Exception as error:
        if taken.row is not None:
            _close_failed(taken.row, taken, error)
        if isinstance(error, LeaseHeld):
            raise Busy(str(error), tools.number) from error
        raise
    return taken


def _look(contract: AnyContract, taken: Taken, found: Table, tools: Tools, clock: Clock) -> None:
    """Look for what no version names, without the lease: it may take long. Not while somebody is writing."""
    with leased(contract.dataset, tools.attempt, take_over=False):
        taken.row = _begin(contract, taken, clock)
    taken.step = look_for_orphans(found, taken.step, tools)


def _begin(contract: AnyContract, taken: Taken, clock: Clock) -> int:
    points = score(taken.before, contract.maintenance, contract.retention, clock()).total
    return log.begin(taken.step.table, taken.step.operation, taken.step.reason, taken.before, points)


def _act(contract: AnyContract, taken: Taken, tools: Tools, clock: Clock) -> bool:
    """What needs the lease, and nothing else; whether it is still ours at the end."""
    if taken.step.operation == "expire_snapshots":
        _keep(contract, clock)
    found = _table(taken.step.table)
    if ref_snapshot(found) != taken.before.snapshot_id:  # somebody has written since it was measured
        taken.before = health(found, contract.maintenance.target_bytes)
    taken.step = narrowed(taken.step, contract, found.metadata, clock())
    taken.row = taken.row or _begin(contract, taken, clock)
    taken.acting = True
    taken.answer = act(contract, taken.step, tools)
    taken.left = _table(taken.step.table)
    return leases.renew(contract.dataset, tools.attempt.run, tools.attempt.id)


def _proven(contract: AnyContract, taken: Taken, now: datetime) -> str:
    """No row more or less than before, and every file that a version names is there; then the row is closed."""
    step, left, policy = taken.step, taken.left or _table(taken.step.table), contract.maintenance
    after = health(left, policy.target_bytes)
    check_rows(step.table, left, taken.before.snapshot_id)
    checked = _all_there(step.table, left)
    if step.operation == "remove_orphan_files":
        taken.answer = removed(left, taken.answer)
    points = score(after, policy, contract.retention, now)
    read, written = _work(left, taken.before.snapshot_id)
    log.close(
        taken.row or 0,
        f"failed: {_not_rewritten(taken.unwritten)}" if taken.unwritten else log.DONE,
        taken.seconds,
        after=after.without_partitions().model_dump(mode="json"),
        score_after=points.total,
        bytes_read=read,
        bytes_written=written,
        files_checked=checked,
        detail=_detail(taken),
    )
    measures.record(step.table, after, points, concerns(after, policy))
    return _line(taken, after, score(taken.before, policy, contract.retention, now), points, written)


def _detail(taken: Taken) -> dict[str, object]:
    """What the ledger keeps of the answer."""
    files, lease = list(taken.answer.files[:_LISTED]), round(taken.lease_seconds, 2)
    failure = {"failure": taken.answer.failure} if taken.answer.failure else {}
    return {**taken.answer.counters, "files": files, "lease_seconds": lease, **failure}


def _close_failed(row: int, taken: Taken, error: Exception) -> None:
    """Close the row; a step that failed must not have taken a file with it, and if it has, that is what is told."""
    if not taken.acting:
        log.close(row, _not_begun(error), taken.seconds)
        return
    try:
        check_files(taken.step.table, _table(taken.step.table))
    except FilesMissing as missing:
        log.close(row, f"failed: {missing}", taken.seconds)
        raise missing from error
    except Exception:  # noqa: BLE001, S110  # the catalog or the store may be what failed
        pass
    log.close(row, f"failed: {error}", taken.seconds)


def _not_begun(error: Exception) -> str:
    """How a step ended that has touched nothing."""
    if isinstance(error, LeaseHeld):
        return f"put off: {error}"
    return f"{log.REFUSED if isinstance(error, NoOrphans) else log.UNSEEN}: {error}"


def _all_there(name: str, left: Table) -> int:
    """How many files the table's versions name, all of which are there, but for versions that expire meanwhile."""
    for _ in range(_LOOKS - 1):
        try:
            return check_files(name, left)
        except (FilesMissing, FileNotFoundError):
            named = {one.snapshot_id for one in left.metadata.snapshots}
            left = _table(name)
            if named <= {one.snapshot_id for one in left.metadata.snapshots}:
                raise
    return check_files(name, left)


def _work(left: Table, since: int | None) -> tuple[int, int]:
    """What maintenance's own versions since then read and wrote, in bytes."""
    read = written = 0
    for one in (each for each in own_versions(left, since) if not lets_go(each)):
        summary = one.summary.additional_properties if one.summary else {}
        read += int(summary.get("removed-files-size", 0))
        written += int(summary.get("added-files-size", 0))
    return read, written


def _table(name: str) -> Table:
    found = table(name)
    if found is None:
        raise RowsChanged(f"{name} is gone; it was there a moment ago")
    return found


def _not_rewritten(count: int) -> str:
    return f"{count} files could not be rewritten; Spark's log says why"


def _line(taken: Taken, after: TableHealth, was: Score, now: Score, written: int) -> str:
    step, before, counters = taken.step, taken.before, taken.answer.counters
    unwritten = f", {_not_rewritten(taken.unwritten)}" if taken.unwritten else ""
    done = {
        "rewrite_data_files": f"files {before.files} → {after.files}, {size(written)} written{unwritten}",
        "rewrite_manifests": f"lists of files {before.manifests} → {after.manifests}",
        "expire_snapshots": f"versions {before.snapshots} → {after.snapshots}",
        "remove_orphan_files": f"{len(taken.answer.files)} files removed{stayed(taken.answer)}",
        "set_properties": f"{len(step.properties)} settings changed",
        "clear_landing": went(taken.answer),
        "delete_old_rows": f"{counters.get('rows', 'no')} rows from before {step.rows_from} gone",
    }
    return (
        f"{step.table}: {step.operation}, for {step.reason}: {done[step.operation]}, "
        f"rows {before.rows} → {after.rows}, score {was.total} → {now.total}, lease held {taken.lease_seconds:.1f} s"
    )


__all__ = ["Busy", "LeaseHeld", "LeaseLost", "PutOff", "RowsChanged", "WindowClosed", "carry_out"]
