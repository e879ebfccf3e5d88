"""Bringing the sample's days to gold through Airflow, and watching them get there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta

from lakehouse.airflow_api import AirflowApi, Run
from lakehouse.errors import LakehouseError
from lakehouse.naming import WATCH_DAG, maintenance_dag_id
from lakehouse.settings import Settings
from lakehouse.stack.secret_file import remember

SAMPLE_DAYS = 3
SAMPLE_DAGS = ("bronze_orders", "silver_orders", "gold_daily_sales")
SAMPLE_GOAL = SAMPLE_DAGS[-1]
# They follow by themselves once there is something to look at.
OTHER_DAGS = (
    *(f"{layer}_{name}" for name in ("customers", "products", "clicks") for layer in ("bronze", "silver")),
    "gold_click_sessions",
)
MAINTENANCE = maintenance_dag_id("daily")
POLL_SECONDS = 2.0
MINUTES = 30

Progress = Mapping[str, Counter[str]]
Watch = Callable[[Progress], None]


def today() -> date:
    return datetime.now(UTC).date()


def ensure_start(known: Settings) -> date:
    """The first day of the sample: some days ago at the first run, then remembered."""
    if known.start is None:
        first = today() - timedelta(days=SAMPLE_DAYS)
        remember({"start": first.isoformat()})
        return first
    return known.start


def run_pipeline(known: Settings, first: date, last: date, watch: Watch) -> None:
    """Unpause the DAGs, and return when every day from first to last is in gold; raise what went wrong."""
    wanted = [*SAMPLE_DAGS, MAINTENANCE, WATCH_DAG]
    days = (last - first).days + 1
    deadline = time.monotonic() + MINUTES * 60
    with AirflowApi(known) as api:
        _await_dags(api, wanted, deadline)
        for dag in wanted:
            api.unpause(dag)
        while True:
            runs = {dag: api.runs(dag, first, last) for dag in SAMPLE_DAGS}
            _stop_at_failure(api, runs.values())
            progress = {dag: Counter(run.state for run in found) for dag, found in runs.items()}
            watch(progress)
            if progress[SAMPLE_GOAL]["success"] >= days:
                for dag in api.dags().intersection(OTHER_DAGS):
                    api.unpause(dag)
                return
            _wait(deadline, "The sample's days are not in gold")


def _await_dags(api: AirflowApi, wanted: Iterable[str], deadline: float) -> None:
    missing = set(wanted) - api.dags()
    while missing:
        _wait(deadline, f"Airflow does not show {', '.join(sorted(missing))}")
        missing = set(wanted) - api.dags()


def _stop_at_failure(api: AirflowApi, runs: Iterable[list[Run]]) -> None:
    failed = [run for found in runs for run in found if run.state == "failed"]
    if failed:
        run = failed[0]
        task, line = api.failure(run)
        raise LakehouseError(f"{run.dag} failed for {run.day} in task {task}: {line}")


def _wait(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise LakehouseError(f"{what} after {MINUTES} minutes: look at Airflow's page, or `lakehouse status`.")
    time.sleep(POLL_SECONDS)
