"""Which files are written again without columns that the table has no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakehouse.contracts.keeping import Maintenance
from lakehouse.health.model import TableHealth
from lakehouse.maintenance.rewrite_step import Scope, Work, rewrite_step
from lakehouse.maintenance.step import Step
from lakehouse.maintenance.units import Unit, named, partitions_of, together
from lakehouse.wording import size

REWRITE_ALL = "rewrite-all"


@dataclass(frozen=True)
class Purges:
    """What is done in this window, to which units, and what is put off."""

    steps: tuple[Step, ...] = ()
    units: tuple[Unit, ...] = ()
    later: tuple[str, ...] = ()


def is_due(found: TableHealth, policy: Maintenance, now: datetime) -> bool:
    """Whether dropped columns are old enough: until then it may be a mistake, to be undone."""
    return found.last_with_dropped is None or now - found.last_with_dropped >= policy.dropped_after


def holds_dropped(unit: Unit) -> bool:
    return any(one.dropped_files for one in unit.partitions)


def purges(scope: Scope, units: Iterable[Unit]) -> Purges:
    """As much as a window's budget.

    All files of a unit go at once: Iceberg could not tell those that are done from those that are not.
    """
    budget = scope.budget_bytes
    chosen: list[Unit] = []
    over: list[Unit] = []
    for unit in filter(holds_dropped, units):
        fits = unit.bytes <= budget
        (chosen if fits else over).append(unit)
        budget -= unit.bytes if fits else 0
    steps = [_step(scope, group) for group in together(chosen, lambda unit: unit.bytes, scope.slice_bytes)]
    return Purges(tuple(steps), tuple(chosen), tuple(_put_off(scope, over)))


def _put_off(scope: Scope, over: Sequence[Unit]) -> list[str]:
    window = size(scope.budget_bytes)
    never = [unit for unit in over if unit.bytes > scope.budget_bytes]
    waiting = sum(unit.bytes for unit in over) - sum(unit.bytes for unit in never)
    told = [f"{size(waiting)} that hold dropped columns are beyond this window's {window}"] if waiting else []
    return told + [
        f"{size(unit.bytes)} in {named(unit.partitions)} that hold dropped columns have to be rewritten at once, and "
        f"are more than a window's {window}; raise budget_mb"
        for unit in never
    ]


def _step(scope: Scope, group: Sequence[Unit]) -> Step:
    partitions = partitions_of(group)
    files, work = sum(one.dropped_files for one in partitions), sum(unit.bytes for unit in group)
    return rewrite_step(
        scope,
        group,
        Work(sum(one.files for one in partitions), work, work),
        f"in {named(partitions)} {files} files still hold columns that were dropped",
        {REWRITE_ALL: "true"},
        " What was dropped is gone once older versions have expired.",
    )
