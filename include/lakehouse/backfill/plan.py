"""What has to be built, in which order, and why; and what cannot be built, and what it lacks.

Pure: it reads no clock, no table, no ledger and no Airflow. A run itself has the last word: one that finds nothing to
do commits nothing, so an interval too many costs a little time, and one too few would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lakehouse.backfill.scope import overlap
from lakehouse.contracts.model import AnyContract
from lakehouse.intervals import Coverage, Interval

MISSING, FAILED, ASKED_FOR = "missing", "failed", "asked for"


class Mode(StrEnum):
    """Which intervals are taken besides those that are missing, and what depends on them."""

    NEEDED = "needed"  # those that are not as their inputs, files and contract would have them now
    MISSING = "missing"  # only those built from what was undone: nothing else has to do with what is missing
    ALL = "all"


@dataclass(frozen=True)
class Outdated:
    """Why what a table holds is not what it would hold if it were built now."""

    why: str
    undone: bool = False  # it was built from something that has been rolled back since


@dataclass(frozen=True)
class Facts:
    """What is known of one dataset."""

    held: Coverage = field(default_factory=Coverage)
    failed: frozenset[Interval] = frozenset()  # the newest run of each has failed
    outdated: Mapping[Interval, Outdated] = field(default_factory=dict)
    stale: Outdated | None = None  # the table as a whole is outdated: building any interval mends it
    awaited: Mapping[Interval, str] = field(default_factory=dict)  # what its landing folder waits for


@dataclass(frozen=True)
class Step:
    """One interval to build."""

    dataset: str
    interval: Interval
    why: str


@dataclass(frozen=True)
class Blocked:
    """One interval that should be built and cannot: its run would only wait."""

    step: Step
    lacks: str
    first: str = ""  # the dataset that has to be built first, where it is none of those that are planned


@dataclass(frozen=True)
class Plan:
    """The steps, each after those that it depends on, and what is left out."""

    steps: tuple[Step, ...] = ()
    blocked: tuple[Blocked, ...] = ()

    def of(self, dataset: str) -> list[Step]:
        return [step for step in self.steps if step.dataset == dataset]

    @property
    def datasets(self) -> list[str]:
        """The datasets that have steps, in order."""
        return list(dict.fromkeys(step.dataset for step in self.steps))


def plan(
    scope: Iterable[AnyContract],
    intervals: Mapping[str, Sequence[Interval]],
    facts: Mapping[str, Facts],
    mode: Mode = Mode.NEEDED,
) -> Plan:
    """Plan the given intervals of these contracts, which are in order. `facts` knows their inputs, too."""
    steps: list[Step] = []
    blocked: list[Blocked] = []
    for contract in scope:
        built = {name: Coverage.of(one.interval for one in steps if one.dataset == name) for name in contract.inputs}
        for step in _wanted(contract, intervals[contract.dataset], facts[contract.dataset], built, mode):
            if awaited := facts[contract.dataset].awaited.get(step.interval):
                blocked.append(Blocked(step, f"its landing folder waits for {awaited}"))
            elif lacked := _lacked(contract, step.interval, facts, built):
                outside = "" if lacked in intervals else lacked
                blocked.append(Blocked(step, f"{lacked} does not hold it", outside))
            else:
                steps.append(step)
    return Plan(tuple(steps), tuple(blocked))


def _wanted(
    contract: AnyContract, intervals: Sequence[Interval], own: Facts, built: Mapping[str, Coverage], mode: Mode
) -> list[Step]:
    """What has to be built of one dataset, after what is built of its inputs."""
    reasons = {one: _reason(one, own, built, mode) for one in intervals}
    found = [Step(contract.dataset, one, why) for one, why in reasons.items() if why]
    held = [one for one in intervals if one in own.held]
    if found or not held or own.stale is None or not _counts(own.stale, mode):
        return found
    return [Step(contract.dataset, held[-1], own.stale.why)]


def _reason(interval: Interval, own: Facts, built: Mapping[str, Coverage], mode: Mode) -> str | None:
    """Why the interval has to be built, or None."""
    if interval not in own.held:
        return FAILED if interval in own.failed else MISSING
    for name, again in built.items():
        if any(overlap(one, interval) for one in again.intervals):
            return f"{name} is built again"
    outdated = own.outdated.get(interval)
    if outdated and _counts(outdated, mode):
        return outdated.why
    return ASKED_FOR if mode is Mode.ALL else None


def _counts(outdated: Outdated, mode: Mode) -> bool:
    return outdated.undone or mode is not Mode.MISSING


def _lacked(
    contract: AnyContract, interval: Interval, facts: Mapping[str, Facts], built: Mapping[str, Coverage]
) -> str | None:
    """The input that will not hold the whole interval: its run would wait in vain."""
    for name in contract.inputs:
        if interval not in Coverage.of((*facts[name].held.intervals, *built[name].intervals)):
            return name
    return None
