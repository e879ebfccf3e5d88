"""What a step does: by the catalog alone, or by one of Iceberg's procedures on Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from lakehouse import jobs, naming
from lakehouse.catalog import catalog
from lakehouse.contracts.load import loaded
from lakehouse.contracts.model import AnyContract, Bronze
from lakehouse.errors import LakehouseError
from lakehouse.jobs import Call, Maintained, MaintainJob
from lakehouse.ledger import leases
from lakehouse.maintenance.clearing import clear
from lakehouse.maintenance.old_rows import let_go
from lakehouse.maintenance.orphans import look_again, still_old
from lakehouse.maintenance.proof import there
from lakehouse.maintenance.readers import not_yet_taken, readers
from lakehouse.maintenance.step import Step
from lakehouse.plan import Attempt
from lakehouse.publish import MainMoved
from lakehouse.retention import versions_at_rest
from lakehouse.steps import LeaseHeld, leased

RunJob = Callable[[MaintainJob], None]
_NOTHING = Maintained(counters={})
# How a job says that the catalog, the store or Spark is away: it is so for every other step, too.
_AWAY = "does not answer"
_ORPHANS_AT_ONCE = 5_000


class LeaseLost(LakehouseError):
    """Somebody else may write the dataset by now."""


class JobOfStepFailed(LakehouseError):
    """The Spark job of a step failed, which says nothing of other steps."""


class HasToWait(LakehouseError):
    """Somebody else than a writer of the dataset keeps a step from being taken now; it has changed nothing."""


@dataclass(frozen=True)
class Tools:
    """Whose lease it is, by whom, and where Spark jobs run; the place of the step in its plan, and the pause before it.

    A step that holds the lease several times leaves it free for that long in between, too.
    """

    dataset: str
    attempt: Attempt
    run: RunJob
    number: int
    pause: float = 0.0


def lost(dataset: str) -> LeaseLost:
    return LeaseLost(f"maintenance of {dataset} stops: its lease was lost, and somebody else may be writing")


def look_for_orphans(found: Table, step: Step, tools: Tools) -> Step:
    """The step with the files that no version names, looked at by other means than those that found them.

    Removes nothing.
    """
    call = _call(step)
    listed = _called(step, call, "list", tools).files
    files: tuple[tuple[str, datetime], ...] = ()
    if listed and call.older_than:
        look_again(step.table, found, listed)
        files = still_old(found, listed, call.older_than)
    return _of_files(step, files)


def parts_of(step: Step) -> list[Step]:
    """What is done of it while the lease is held once: a store removes so many files within seconds."""
    files = step.call.files if step.call else ()
    starts = range(0, len(files), _ORPHANS_AT_ONCE)
    return [_of_files(step, files[start : start + _ORPHANS_AT_ONCE]) for start in starts] or [step]


def _of_files(step: Step, files: tuple[tuple[str, datetime], ...]) -> Step:
    return step.model_copy(update={"call": _call(step).model_copy(update={"files": files})})


def act(contract: AnyContract, step: Step, tools: Tools) -> Maintained:
    """Do it, if the lease is still ours; of orphans only those go that the step names."""
    if step.operation == "set_properties":
        return _set_properties(step)
    if step.operation == "delete_old_rows":
        return _let_go(step, tools)
    if step.operation == "clear_landing":
        return clear(contract, step, partial(_still_ours, tools)) if isinstance(contract, Bronze) else _NOTHING
    call = _call(step)
    if step.operation == "remove_orphan_files":
        if not call.files:
            return _NOTHING
        call = call.model_copy(update={"dry_run": False})
    _still_ours(tools)
    if step.operation != "expire_snapshots":
        return _called(step, call, "", tools)
    with versions_at_rest(step.table, tools.attempt.run, tools.attempt.id):
        return _called(step, call, "", tools)


def _still_ours(tools: Tools) -> None:
    if not leases.renew(tools.dataset, tools.attempt.run, tools.attempt.id):
        raise lost(tools.dataset)


def _let_go(step: Step, tools: Tools) -> Maintained:
    """Rows that are past their time; `HasToWait` where somebody has yet to take them, for the plan may be old.

    Nobody who reads them works meanwhile, nor undoes what was made from them.
    """
    if step.rows_from is None:
        return _NOTHING
    before, everything, found = step.rows_from, loaded(), there(step.table)
    lacks: list[str] = []

    def held() -> str:
        lacks.append(not_yet_taken(step.table, before, everything))
        return lacks[-1]

    mark = naming.job_key(tools.dataset, tools.attempt.id, _verb(step, "", tools))
    # A reader may be kept by a task of the same run: its lease is not ours for that.
    own = replace(tools.attempt, run=f"{tools.attempt.run}#{step.table}")
    try:
        with ExitStack() as quiet:
            for reader in readers(step.table, everything):
                quiet.enter_context(leased(reader.dataset, own, take_over=False))
            _still_ours(tools)
            answer = let_go(step.table, found, before, mark, held)
    except (LeaseHeld, MainMoved) as busy:  # a reader is at work, or somebody who knows of no lease
        raise HasToWait(str(busy)) from busy
    if why := next(filter(None, lacks), ""):
        raise HasToWait(why)
    return answer


def _call(step: Step) -> Call:
    if step.call is None:
        raise ValueError(f"{step.table}: {step.operation} needs a call, and the plan gave none")
    return step.call


def _set_properties(step: Step) -> Maintained:
    found = there(step.table)
    same = AssertTableUUID(uuid=found.metadata.table_uuid)
    catalog().commit_table(found, (same,), (SetPropertiesUpdate(updates=step.properties),))
    return Maintained(counters={"properties": len(step.properties)})


def _called(step: Step, call: Call, what: str, tools: Tools) -> Maintained:
    """One of Iceberg's procedures, as a Spark job."""
    verb = _verb(step, what, tools)
    job = MaintainJob(
        key=naming.job_key(tools.dataset, tools.attempt.id, verb),
        session_id=tools.attempt.session(verb),
        stale_sessions=tools.attempt.stale_sessions(verb),
        table=step.table,
        call=call,
    )
    jobs.hand_over(job)
    try:
        tools.run(job)
    except Exception as error:
        if _AWAY in str(error):
            raise
        raise JobOfStepFailed(str(error) or type(error).__name__) from error
    return jobs.maintained(job.key)


def _verb(step: Step, what: str, tools: Tools) -> str:
    parts = (step.operation, str(tools.number), what, naming.dag_id(step.table))
    return "-".join(part for part in parts if part)
