"""Carrying a plan out through Airflow: dataset by dataset, in exactly the intervals that are planned."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from lakehouse import advice
from lakehouse.airflow_api import Run
from lakehouse.backfill.airflow import Backfills
from lakehouse.backfill.plan import Plan, Step
from lakehouse.backfill.runs import reachable, room, rows
from lakehouse.backfill.scope import Contracts
from lakehouse.backfill.told import Outcome, progress
from lakehouse.catalog import coverage, table
from lakehouse.errors import LakehouseError
from lakehouse.naming import SPARK_POOL, dag_id

POLL_SECONDS = 2.0
SUCCESS, FAILED, GONE = "success", "failed", "gone"
ENDED = (SUCCESS, FAILED, GONE)
Runs = Mapping[datetime, Run]


def refuse_paused(plan: Plan, api: Backfills) -> None:
    """Refuse a plan with a dataset whose DAG is paused: its runs would never start."""
    paused = [dag.dag_id for dag in (api.dag(dag_id(name)) for name in plan.datasets) if dag.paused]
    if paused:
        raise LakehouseError(f"paused: {', '.join(paused)}, so nothing would run; first: {advice.unpause(paused)}")


class Execution:
    """One plan on its way. What was started goes on in Airflow, whatever becomes of this process."""

    def __init__(
        self, api: Backfills, contracts: Contracts, replan: Callable[[], Plan], tell: Callable[[str], None]
    ) -> None:
        self._api, self._contracts, self._replan, self._tell = api, contracts, replan, tell
        self._said = ""
        self.goes_on = ""  # what goes on if this process ends now

    def run(self, plan: Plan) -> list[Outcome]:
        """Build every step whose inputs were built, and look whether its interval is there."""
        outcomes: list[Outcome] = []
        for dataset in plan.datasets:
            steps, skipped = reachable(plan.of(dataset), self._contracts[dataset].inputs, outcomes)
            outcomes += [*skipped, *self._build(dataset, steps)]
        return outcomes

    def _build(self, dataset: str, steps: Sequence[Step]) -> list[Outcome]:
        settled = self._after_those_under_way(dataset, steps)
        left = [step for step in steps if step not in settled]
        for row in rows(left):
            self._backfill(dataset, row)
        held, runs = coverage(table(dataset)), self._runs(dataset, left)
        outcomes = [Outcome(one, self._wrong(one, runs)) for one in left]
        return [
            Outcome(one.step, one.wrong or ("" if one.step.interval in held else f"{dataset} does not hold it"))
            for one in [*(Outcome(step) for step in settled), *outcomes]
        ]

    def _after_those_under_way(self, dataset: str, steps: Sequence[Step]) -> list[Step]:
        """Wait for runs of these intervals that somebody has started before; the steps that are settled by them."""
        runs = self._runs(dataset, steps)
        under_way = [one for one in steps if _state(one, runs) not in ENDED]
        if not under_way:
            return []
        self.goes_on = f"runs of {dag_id(dataset)} go on that were under way before"
        self._follow(dataset, under_way)
        self.goes_on = ""
        needed = {(one.dataset, one.interval) for one in self._replan().steps}
        return [one for one in under_way if (one.dataset, one.interval) not in needed]

    def _backfill(self, dataset: str, row: Sequence[Step]) -> None:
        """One backfill of Airflow's, from its start to the end of its last run."""
        dag = self._api.dag(dag_id(dataset))
        while numbers := self._api.open_backfills(dag.dag_id):
            self._say(
                f"{dataset}: waits until backfill {numbers[0]} of {dag.dag_id} is closed: a DAG has one at a time"
            )
            time.sleep(POLL_SECONDS)
        at_a_time = room(self._api.slots(SPARK_POOL), dag.max_active_runs)
        made = self._api.backfill(dag.dag_id, row[0].interval.start, row[-1].interval.start, at_a_time)
        self.goes_on = f"backfill {made} of {dag.dag_id} goes on: {advice.runs(dag.dag_id)}, or the DAG's page"
        self._follow(dataset, row)
        self.goes_on = ""

    def _follow(self, dataset: str, steps: Sequence[Step]) -> None:
        """Tell each change until every run has ended."""
        while True:
            runs = self._runs(dataset, steps)
            states = [_state(one, runs) for one in steps]
            ended = all(state in ENDED for state in states)
            paused = not ended and self._api.dag(dag_id(dataset)).paused
            hint = f" ({dag_id(dataset)} was paused: it goes on when unpaused)" if paused else ""
            self._say(progress(dataset, states) + hint)
            if ended:
                return
            time.sleep(POLL_SECONDS)

    def _runs(self, dataset: str, steps: Sequence[Step]) -> Runs:
        if not steps:
            return {}
        starts = [one.interval.start for one in steps]
        return self._api.runs_by_start(dag_id(dataset), min(starts), max(starts))

    def _wrong(self, step: Step, runs: Runs) -> str:
        """Why a step's run has not succeeded, or nothing."""
        match _state(step, runs):
            case "success":
                return ""
            case "failed":
                task, line = self._api.failure(runs[step.interval.start])
                return f"{task} failed: {line}"
            case state:
                return f"its run is {state}"

    def _say(self, line: str) -> None:
        if line != self._said:
            self._tell(f"{datetime.now():%H:%M:%S} {line}")  # noqa: DTZ005
            self._said = line


def _state(step: Step, runs: Runs) -> str:
    run = runs.get(step.interval.start)
    return run.state if run else GONE
