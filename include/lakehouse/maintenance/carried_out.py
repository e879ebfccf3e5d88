"""Carrying a plan out: each step under the lease, which is given back in between; before and after are kept.

The lease is held for the step alone. What is measured before it, and proven after it, is read from versions of the
table that do not change any more, while others may write.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from pyiceberg.table import Table

from lakehouse.contracts.load import loaded
from lakehouse.contracts.model import AnyContract
from lakehouse.errors import LakehouseError
from lakehouse.health import health
from lakehouse.ledger import leases
from lakehouse.ledger import maintenance as log
from lakehouse.ledger.database import now as ledger_time
from lakehouse.maintenance.acts import (
    HasToWait,
    JobOfStepFailed,
    LeaseLost,
    RunJob,
    Tools,
    act,
    look_for_orphans,
    lost,
    parts_of,
)
from lakehouse.maintenance.clearing import settle_begun
from lakehouse.maintenance.narrowed import narrowed
from lakehouse.maintenance.orphans import NoOrphans, PlacesUnknown
from lakehouse.maintenance.proof import RowsChanged, there
from lakehouse.maintenance.step import Step
from lakehouse.maintenance.taken import Taken, begin, close, close_failed, ended, not_rewritten
from lakehouse.maintenance.turn import Busy, PutOff, WindowClosed
from lakehouse.maintenance.window import is_open
from lakehouse.plan import Attempt
from lakehouse.retention import drop_old_branches, keep_inputs
from lakehouse.settling import settle
from lakehouse.steps import LeaseHeld, leased

Clock = Callable[[], datetime]


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
    later try of the same run is not taken over from. A step that has to wait for somebody else is tried once more
    after all others. A Spark job that fails, and files that could not be rewritten, be it in steps before `start`, make
    it fail in the end: all steps have had their turn by then, or are put off.
    """
    left, failed = _from(steps, start), list[Taken]()
    try:
        yield from _tidied(contract, attempt, clock, start if left else None)
        while left:
            number, step = left.popleft()
            if number > start:
                time.sleep(pause)
            if window and not is_open(window, clock()):
                raise WindowClosed(f"it is not {window} UTC any more; {len(left) + 1} steps are left", number)
            taken = _take(contract, step, Tools(contract.dataset, attempt, run, number, pause), clock)
            unwritten += taken.unwritten
            yield taken.line
            if not taken.ours:
                raise lost(contract.dataset)
            failed += [taken] if taken.failure else []
            if taken.waits and number < len(steps):
                left.append((len(steps) + number, step))
    except PutOff as put_off:
        put_off.unwritten = unwritten
        if failed:  # whoever goes on with the rest would not know of it
            raise _failure(contract, failed, unwritten) from put_off
        raise
    if failed or unwritten:
        raise _failure(contract, failed, unwritten) from (failed[0].error if failed else None)


def _from(steps: Sequence[Step], start: int) -> deque[tuple[int, Step]]:
    """The steps from that number on; after them, once more, what of those before had to wait."""
    waiting = [
        (len(steps) + number, step)
        for number, step in enumerate(steps[:start])
        if step.operation == "delete_old_rows" and log.was_put_off(step.table, step.operation)
    ]
    return deque([*list(enumerate(steps))[start:], *waiting])


def _failure(contract: AnyContract, failed: Sequence[Taken], unwritten: int) -> LakehouseError:
    told = [one.failure for one in failed[:1]]
    if len(failed) > 1:
        told.append(f"{len(failed)} steps failed in all")
    if unwritten:
        told.append(not_rewritten(unwritten))
    return LakehouseError(f"{contract.dataset}: {'; '.join(told)}")


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
    found = there(step.table)
    taken = Taken(narrowed(step, contract, found.metadata, clock()), health(found, contract.maintenance.target_bytes))
    try:
        if step.operation == "remove_orphan_files":
            _look(contract, taken, found, tools, clock)
        for number, part in enumerate(parts_of(taken.step)):
            if number:
                time.sleep(tools.pause)
            with leased(contract.dataset, tools.attempt, take_over=False):
                _act(contract, taken, part, tools, clock)
            if not taken.ours:
                break
        close(contract, taken, clock())
    except (HasToWait, JobOfStepFailed, NoOrphans, PlacesUnknown) as error:
        ended(taken, error)
    except Exception as error:
        close_failed(taken, error)
        if isinstance(error, LeaseHeld):
            raise Busy(str(error), tools.number) from error
        raise
    return taken


def _look(contract: AnyContract, taken: Taken, found: Table, tools: Tools, clock: Clock) -> None:
    """Look for what no version names, without the lease: it may take long. Not while somebody is writing."""
    with leased(contract.dataset, tools.attempt, take_over=False):
        begin(contract, taken, clock())
    taken.step = look_for_orphans(found, taken.step, tools)


def _act(contract: AnyContract, taken: Taken, part: Step, tools: Tools, clock: Clock) -> None:
    """What needs the lease, and nothing else: what was written since the table was measured is measured later."""
    begun = time.monotonic()
    if part.operation == "expire_snapshots":
        _keep(contract, clock)
    found = there(part.table)
    taken.step = narrowed(part, contract, found.metadata, clock())
    begin(contract, taken, clock())
    taken.found = found if taken.found is None else taken.found
    taken.answered(act(contract, taken.step, tools))
    taken.left = there(part.table)
    taken.ours = leases.renew(contract.dataset, tools.attempt.run, tools.attempt.id)
    taken.lease_seconds = max(taken.lease_seconds, time.monotonic() - begun)


__all__ = ["Busy", "LeaseHeld", "LeaseLost", "PutOff", "RowsChanged", "WindowClosed", "carry_out"]
