"""Why an interval is not there, and what is to blame. Pure: it is given all facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from lakehouse.causes import Cause
from lakehouse.contracts.model import AnyContract, Contract
from lakehouse.errors import MAIN_UNCHANGED
from lakehouse.intervals import Coverage, Interval
from lakehouse.naming import dag_id

CATALOG, AIRFLOW, SCHEDULER, TRIGGERER = "catalog", "airflow", "airflow-scheduler", "airflow-triggerer"
_ENDED_WELL, _FAILED = ("success", "skipped"), ("failed", "upstream_failed")
_NOT_STARTED = (None, "none", "scheduled", "queued", "restarting")


@dataclass(frozen=True)
class Step:
    """One step of a run: its task's state, since when, and the last line of its log where that says why."""

    name: str
    state: str | None
    since: str = ""
    told: str = ""


@dataclass(frozen=True)
class RunFacts:
    """The run that is responsible for an interval."""

    run_id: str
    state: str
    steps: tuple[Step, ...] = ()


class Airflow(Protocol):
    """What is asked of Airflow."""

    @property
    def answers(self) -> bool: ...
    @property
    def scheduler_beats(self) -> bool: ...
    @property
    def triggerer_beats(self) -> bool: ...

    def paused(self, dag: str) -> bool | None:
        """Whether a DAG is paused; None where there is no such DAG."""

    def run(self, dag: str, interval: Interval) -> RunFacts | None:
        """The run of an interval, if there is one."""


@dataclass(frozen=True)
class World:
    """What can be seen."""

    contracts: Mapping[str, AnyContract]
    held: Mapping[str, Coverage]
    airflow: Airflow
    unseen: frozenset[str] = frozenset()  # tables that the catalog does not show; what they hold, the ledger says
    rolled_back: Callable[[str, Interval], bool] = lambda _dataset, _interval: False


@dataclass(frozen=True)
class Diagnosis:
    """The cause, and its root: a dataset with the interval it lacks, or a service."""

    cause: Cause
    detail: str
    root: str
    root_interval: str = ""
    run_id: str = ""
    path: tuple[tuple[str, str], ...] = ()  # the inputs on the way to the root, each with the interval that it lacks


def diagnose(dataset: str, interval: Interval, world: World) -> Diagnosis:
    """Why the dataset does not hold the interval. What it waits for is looked at first, down to the root."""
    if dataset in world.unseen:
        return Diagnosis(Cause.CATALOG_DOWN, "the catalog does not show its table", CATALOG)
    for name, lacking in missing_inputs(world.contracts[dataset], interval, world):
        if name not in world.contracts:
            return Diagnosis(Cause.UPSTREAM_LATE, f"{name} has no contract", name, str(lacking))
        found = diagnose(name, lacking, world)
        told = found.detail if found.cause is Cause.UPSTREAM_LATE else _because(name, found)
        own_run, path = _run_id(dataset, interval, world), ((name, str(lacking)), *found.path)
        return replace(found, cause=Cause.UPSTREAM_LATE, detail=told, run_id=own_run, path=path)
    return _own(dataset, interval, world)


def missing_inputs(contract: Contract, interval: Interval, world: World) -> Iterator[tuple[str, Interval]]:
    """The inputs that do not hold the interval, each with the first of its own intervals that it lacks."""
    for name in contract.inputs:
        held = world.held.get(name, Coverage())
        if interval in held:
            continue
        source = world.contracts.get(name)
        parts = _parts(source, interval) if source else [interval]
        yield name, next((part for part in parts if part not in held), interval)


def blocked(dataset: str, interval: Interval, world: World) -> tuple[str, ...]:
    """The datasets that cannot have the interval before this one has it, nearest first."""
    found: list[str] = []
    pending = [dataset]
    while pending:
        now = pending.pop(0)
        for name, contract in world.contracts.items():
            waits = now in contract.inputs and interval not in world.held.get(name, Coverage())
            if waits and name not in found:
                found.append(name)
                pending.append(name)
    return tuple(found)


def _parts(contract: Contract, interval: Interval) -> Iterator[Interval]:
    """The contract's own intervals that make up a given one, oldest first."""
    part = contract.interval_ending_by(interval.start)
    while part.end < interval.end:
        part = contract.interval_after(part.end)
        yield part


def _because(name: str, found: Diagnosis) -> str:
    return f"{name}: {found.cause}" + (f", {found.detail}" if found.detail else "")


def _run_id(dataset: str, interval: Interval, world: World) -> str:
    run = world.airflow.run(dag_id(dataset), interval) if world.airflow.answers else None
    return run.run_id if run else ""


def _own(dataset: str, interval: Interval, world: World) -> Diagnosis:
    """The cause where all inputs are there: Airflow, the DAG, or its run."""
    airflow, dag = world.airflow, dag_id(dataset)
    run, paused = airflow.run(dag, interval), airflow.paused(dag)
    if not airflow.answers:  # or no longer, while it was asked
        return Diagnosis(Cause.AIRFLOW_DOWN, "its API does not answer", AIRFLOW)
    here = Diagnosis(Cause.TASK_RUNNING, "", dataset, str(interval), run.run_id if run else "")
    if paused is None:
        return replace(here, cause=Cause.DAG_MISSING, detail=f"Airflow has no DAG {dag}")
    if run and run.state in ("success", "failed"):
        return _ended(run, here, rolled_back=world.rolled_back(dataset, interval))
    if paused:
        return replace(here, cause=Cause.DAG_PAUSED, detail=f"{dag} is paused")
    if run is None or _not_started(run):
        return _not_begun(run, here, airflow)
    return _at_work(run, here, airflow)


def _ended(run: RunFacts, here: Diagnosis, *, rolled_back: bool) -> Diagnosis:
    """A run that is over, and its interval is not there."""
    if run.state == "success" and rolled_back:
        return replace(here, cause=Cause.ROLLED_BACK, detail="the interval was published, and rolled back since")
    if run.state == "success":
        return replace(here, cause=Cause.PUBLISHED_NOTHING, detail="its run is green, and the table lacks the interval")
    failed = next((step for step in run.steps if step.state == "failed"), None)
    told = f"{failed.name}: {failed.told}" if failed and failed.told else "no task of it says why"
    gate = failed is not None and MAIN_UNCHANGED in failed.told
    return replace(here, cause=Cause.GATE_FAILED if gate else Cause.TASK_FAILED, detail=told)


def _not_begun(run: RunFacts | None, here: Diagnosis, airflow: Airflow) -> Diagnosis:
    """Nothing is at work for the interval."""
    if not airflow.scheduler_beats:
        return Diagnosis(Cause.SCHEDULER_DOWN, "the scheduler has no heartbeat", SCHEDULER, run_id=here.run_id)
    if run is None:
        return replace(here, cause=Cause.NO_RUN, detail="the scheduler has made no run")
    waiting = next((step for step in run.steps if step.state in _NOT_STARTED), None)
    told = f"{waiting.name} is not started" if waiting else f"its run is {run.state}"
    return replace(here, cause=Cause.TASK_QUEUED, detail=told)


def _at_work(run: RunFacts, here: Diagnosis, airflow: Airflow) -> Diagnosis:
    """A run that is not over: where it is."""
    step = next(step for step in run.steps if step.state not in (*_ENDED_WELL, *_NOT_STARTED, *_FAILED))
    since = f" since {step.since}" if step.since else ""
    if step.state == "up_for_retry":
        return replace(here, cause=Cause.TASK_RETRYING, detail=f"{step.name}: {step.told}")
    if step.state != "deferred":
        return replace(here, detail=f"{step.name} is {step.state}{since}")
    if not airflow.triggerer_beats:
        return Diagnosis(Cause.TRIGGERER_DOWN, "the triggerer has no heartbeat", TRIGGERER, run_id=run.run_id)
    cause = Cause.SENSOR_WAITING if step.name == "wait" else Cause.LEASE_WAITING
    return replace(here, cause=cause, detail=step.told or f"{step.name} waits{since}")


def _not_started(run: RunFacts) -> bool:
    """Whether nothing of the run is at work, and something would be next."""
    return all(step.state in (*_ENDED_WELL, *_NOT_STARTED, *_FAILED) for step in run.steps)
