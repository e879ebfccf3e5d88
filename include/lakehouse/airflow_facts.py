"""Airflow as the watch sees it: asked at most once for each thing, and only for what is late."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from functools import cached_property, lru_cache
from typing import TypeVar

from lakehouse.airflow_api import AirflowApi, AirflowUnreachable, Run, Task
from lakehouse.diagnosis import RunFacts, Step
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval
from lakehouse.settings import Settings, settings

log = logging.getLogger(__name__)
T = TypeVar("T")
PATIENCE_SECONDS = 10.0
HEALTHY = "healthy"
# What cannot be asked is said once, and again after an answer.
_SAID: set[str] = set()
# What a step's log says is worth a look: the others are at work, or have nothing to say yet.
_TALKATIVE = ("failed", "up_for_retry", "deferred")


class AirflowFacts:
    """What one look asks of Airflow. Whatever cannot be asked counts as unknown; nothing is raised."""

    def __init__(self, api: AirflowApi) -> None:
        self._api = api
        self._gone = False
        self._runs: dict[tuple[str, Interval], Run | None] = {}
        self._told: dict[Run, RunFacts] = {}

    @property
    def answers(self) -> bool:
        return bool(self._health) and not self._gone

    @property
    def scheduler_beats(self) -> bool:
        return self._health.get("scheduler") == HEALTHY

    @property
    def triggerer_beats(self) -> bool:
        return self._health.get("triggerer") == HEALTHY

    def paused(self, dag: str) -> bool | None:
        return self._paused.get(dag)

    def run(self, dag: str, interval: Interval) -> RunFacts | None:
        """The run of an interval with its steps, in the order in which they are taken."""
        found = self.find(dag, interval)
        if found is None:
            return None
        if found not in self._told:
            nothing: list[Task] = []
            tasks = self._asked(lambda api: api.tasks(found), nothing)
            steps = tuple(self._step(found, task) for task in sorted(tasks, key=lambda task: task.since or "9"))
            self._told[found] = RunFacts(found.run_id, found.state, steps)
        return self._told[found]

    def find(self, dag: str, interval: Interval) -> Run | None:
        """The run of an interval."""
        if (dag, interval) not in self._runs:
            self._runs[dag, interval] = self._asked(lambda api: api.run_at(dag, interval.start), None)
        return self._runs[dag, interval]

    def failed(self, since: datetime) -> set[tuple[str, datetime]]:
        """The runs that have failed, by DAG and logical date, from this logical date on."""
        return self._asked(lambda api: api.failed_runs(since), set())

    def note(self, dag: str, interval: Interval, text: str, ours: str) -> None:
        """Leave a note on an interval's run, if there is one; what people wrote there stays, ours begins so."""
        run = self.find(dag, interval)
        if run and (not run.note or run.note.startswith(ours)):
            self._asked(lambda api: api.note(run, text), None, vital=False)

    def _step(self, run: Run, task: Task) -> Step:
        told = ""
        if task.state in _TALKATIVE:
            told = self._asked(lambda api: api.last_line(run, task.task_id, task.try_number), "", vital=False)
        return Step(task.task_id, task.state, task.since or "", told)

    @cached_property
    def _health(self) -> dict[str, str | None]:
        return self._asked(lambda api: api.health(), {})

    @cached_property
    def _paused(self) -> dict[str, bool]:
        return self._asked(lambda api: api.paused(), {})

    def _asked(self, question: Callable[[AirflowApi], T], otherwise: T, *, vital: bool = True) -> T:
        """The answer; once there was none to something vital, Airflow counts as down, and nothing more is asked."""
        if self._gone:
            return otherwise
        try:
            answer = question(self._api)
        except (LakehouseError, LookupError, TypeError, ValueError) as error:  # the latter: an answer that is none
            if (told := str(error)) not in _SAID:
                log.warning("%s", told)
                _SAID.add(told)
            self._gone = vital or isinstance(error, AirflowUnreachable)
            return otherwise
        _SAID.clear()
        return answer


@lru_cache(maxsize=1)
def _session(known: Settings) -> AirflowApi:
    """One for all looks of this process."""
    return AirflowApi(known, patience=PATIENCE_SECONDS, attempts=2)


def airflow_facts() -> AirflowFacts:
    """Airflow's side of one look."""
    return AirflowFacts(_session(settings()))
