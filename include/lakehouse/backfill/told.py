"""A backfill as people see it: the plan with its cost, how far it is, how it ended. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakehouse.advice import build_first
from lakehouse.backfill.days import listed
from lakehouse.backfill.estimate import Estimate, estimate
from lakehouse.backfill.plan import Plan, Step
from lakehouse.backfill.scope import Contracts
from lakehouse.batch import Batch
from lakehouse.intervals import Interval, typed

COLUMNS = ["dataset", "intervals", "", "why", "rows", "bytes", "minutes"]
Row = tuple[str, str, str, str, str, str, str]


@dataclass(frozen=True)
class Outcome:
    """How a step ended: why its interval is not there, or nothing."""

    step: Step
    wrong: str = ""


def rows_of(plan: Plan, contracts: Contracts, known: Mapping[str, Sequence[Batch]]) -> list[Row]:
    """A row for each dataset and reason, with what it will cost, and their sum."""
    groups: dict[tuple[str, str], list[Step]] = {}
    for step in plan.steps:
        groups.setdefault((step.dataset, step.why), []).append(step)
    rows: list[Row] = []
    costs: list[Estimate] = []
    for (dataset, why), steps in groups.items():
        intervals = [step.interval for step in steps]
        costs.append(estimate(intervals, known[dataset]))
        names = listed(contracts[dataset], intervals)
        rows.append((dataset, str(len(steps)), names, why, *costs[-1].cells()))
    if len(rows) > 1:
        rows.append(("all", str(len(plan.steps)), "", "", *_sum(costs).cells()))
    return rows


def _sum(costs: Sequence[Estimate]) -> Estimate:
    """All together; what is unknown of one is unknown of all."""
    totals = zip(*((one.rows, one.bytes, one.seconds) for one in costs), strict=True)
    return Estimate(*(None if None in values else sum(one or 0.0 for one in values) for values in totals))


def lacking(plan: Plan, contracts: Contracts) -> list[str]:
    """A line for each dataset and reason why intervals cannot be built, with what to do first where that is known."""
    groups: dict[tuple[str, str, str], list[Interval]] = {}
    for one in plan.blocked:
        groups.setdefault((one.step.dataset, one.lacks, one.first), []).append(one.step.interval)
    return [
        f"{dataset} {listed(contracts[dataset], intervals)} cannot be built: {lacks}"
        + (f"; first: {_first(first, intervals, contracts)}" if first else "")
        for (dataset, lacks, first), intervals in groups.items()
    ]


def _first(dataset: str, intervals: Sequence[Interval], contracts: Contracts) -> str:
    """The command that builds an input for these intervals; where its contract is wrong, that is looked at first."""
    if dataset not in contracts:
        return "lakehouse contracts check"
    return build_first(contracts[dataset], Interval(intervals[0].start, intervals[-1].end))


def progress(dataset: str, states: Iterable[str]) -> str:
    """One line: how many of a dataset's runs have ended, and where the others are."""
    counts = Counter(states)
    ended = sum(counts[state] for state in ("success", "failed", "gone"))
    return f"{dataset}: {ended} of {counts.total()} done: " + ", ".join(
        f"{count} {state}" for state, count in sorted(counts.items())
    )


def verdict(outcomes: Sequence[Outcome], plan: Plan, contracts: Contracts) -> str | None:
    """What is wrong with the outcome, naming each dataset and interval; None when all that was wanted is there."""
    bad = [one for one in outcomes if one.wrong]
    if not bad and not plan.blocked:
        return None
    lost = [f"{one.step.dataset} {_name(one.step, contracts)}: {one.wrong}" for one in bad]
    wanted = len(outcomes) + len(plan.blocked)
    return f"{len(bad) + len(plan.blocked)} of {wanted} intervals are not built: " + "; ".join(
        [*lost, *lacking(plan, contracts)]
    )


def _name(step: Step, contracts: Contracts) -> str:
    return typed(step.interval, contracts[step.dataset].timezone)
