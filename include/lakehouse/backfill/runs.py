"""How a plan's steps become Airflow's runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakehouse.backfill.plan import Step
from lakehouse.backfill.scope import overlap
from lakehouse.backfill.told import Outcome


def room(slots: int, max_active_runs: int) -> int:
    """How many runs at a time leave one of the pool's slots to the daily runs; one in any case."""
    return max(1, min(slots - 1, max_active_runs))


def rows(steps: Iterable[Step]) -> list[list[Step]]:
    """Steps of one dataset in rows without a gap: Airflow makes a run for every interval from the first to the last."""
    found: list[list[Step]] = []
    for step in sorted(steps, key=lambda one: one.interval):
        if found and found[-1][-1].interval.end == step.interval.start:
            found[-1].append(step)
        else:
            found.append([step])
    return found


def reachable(
    steps: Sequence[Step], inputs: Sequence[str], before: Sequence[Outcome]
) -> tuple[list[Step], list[Outcome]]:
    """The steps whose inputs were built, and an outcome for each that would only wait for one that was not."""
    lost = [one.step for one in before if one.wrong and one.step.dataset in inputs]
    found: list[Step] = []
    skipped: list[Outcome] = []
    for step in steps:
        missing = [one.dataset for one in lost if overlap(one.interval, step.interval)]
        if missing:
            skipped.append(Outcome(step, f"not started, for {missing[0]} was not built"))
        else:
            found.append(step)
    return found, skipped
