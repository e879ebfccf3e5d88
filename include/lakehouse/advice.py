"""Commands to try, ready to be pasted, and where to read on."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from lakehouse.causes import Cause
from lakehouse.intervals import Interval, typed
from lakehouse.naming import dag_id, layer_of
from lakehouse.settings import settings

if TYPE_CHECKING:
    from lakehouse.contracts.model import Contract

RUNBOOKS = "runbooks"
DOCS = "include/docs"
# What mends a service: it is started, or started again where it hangs; what works is left alone.
_SERVICES = {
    Cause.SCHEDULER_DOWN: "lakehouse up --only airflow-scheduler",
    Cause.TRIGGERER_DOWN: "lakehouse up --only airflow-triggerer",
    Cause.AIRFLOW_DOWN: "lakehouse up --only airflow",
    Cause.CATALOG_DOWN: "lakehouse up --only data",
    Cause.WATCH_DOWN: "lakehouse up --only watch",
}
_STATES = "lakehouse airflow tasks states-for-dag-run {dag} {moment}"
_BACKFILL = "lakehouse airflow dags backfill -s {first} -e {last} {dag}"
_AGAIN = f"{_BACKFILL} --reset-dagruns -y"
_UNPAUSE = "lakehouse airflow dags unpause {dag}"
_RUNS = "lakehouse airflow dags list-runs {dag}"
IMPORT_ERRORS = "lakehouse airflow dags list-import-errors"
# What looks at, or mends, one interval of one dataset, or its table.
_DATASETS = {
    Cause.UPSTREAM_LATE: "lakehouse sla",
    Cause.SENSOR_WAITING: _STATES,
    Cause.LEASE_WAITING: f"{_RUNS} --state running",
    Cause.TASK_RUNNING: _STATES,
    Cause.TASK_QUEUED: "lakehouse logs airflow-scheduler",
    Cause.TASK_RETRYING: _STATES,
    Cause.TASK_FAILED: f"{_BACKFILL} --rerun-failed-tasks",
    Cause.GATE_FAILED: "lakehouse gates {dataset} --wrong",
    Cause.PUBLISHED_NOTHING: _AGAIN,
    Cause.ROLLED_BACK: "lakehouse snapshots {dataset}",
    Cause.DAG_PAUSED: _UNPAUSE,
    Cause.DAG_MISSING: IMPORT_ERRORS,
    Cause.NO_RUN: _BACKFILL,
    Cause.TABLE_WORN: "lakehouse maintain {dataset} --dry-run",
    Cause.MAINTENANCE_LATE: "lakehouse maintenance log {dataset}",
}


def command(
    cause: Cause | None, dataset: str | None = None, interval: Interval | None = None, timezone: str = "UTC"
) -> str | None:
    """The one command to try, ready to be pasted; None where there is none, or something it must name is not known."""
    if cause is None or cause in _SERVICES:
        return _SERVICES.get(cause) if cause else None
    waits_for_files = cause is Cause.SENSOR_WAITING and dataset and layer_of(dataset) == "bronze"
    form = "lakehouse landing {dataset} {first}" if waits_for_files else _DATASETS[cause]
    known: dict[str, str] = {}
    if dataset:
        known |= {"dataset": dataset, "dag": dag_id(dataset)}
    if interval:
        begin = typed(interval, timezone)
        known |= {"first": begin, "last": begin, "moment": interval.start.isoformat()}
    try:
        return form.format(**known)
    except KeyError:
        return None


def run_again(contract: Contract, intervals: Iterable[Interval]) -> str:
    """The command that runs these intervals again, and those between them, also where their runs were good."""
    asked = [typed(one, contract.timezone) for one in sorted(intervals)]
    return _AGAIN.format(first=asked[0], last=asked[-1], dag=dag_id(contract.dataset))


def build_first(contract: Contract, time: Interval) -> str:
    """The command that builds what a dataset lacks of that time, with all that it is made from."""
    ends = (time.start, time.end - timedelta(microseconds=1))
    first, last = (typed(contract.interval_around(one), contract.timezone) for one in ends)
    return f"lakehouse backfill {contract.dataset} -s {first} -e {last} --upstream"


def unpause(dags: Iterable[str]) -> str:
    """The command that switches these DAGs on."""
    return " && ".join(_UNPAUSE.format(dag=one) for one in dags)


def runs(dag: str) -> str:
    """The command that lists a DAG's runs."""
    return _RUNS.format(dag=dag)


def runbook(cause: Cause | None) -> str | None:
    """The cause's page."""
    return page(cause) if cause else None


def page(name: str) -> str:
    """A page of the runbooks: in a browser if the setting says where, else its path in the repository."""
    return f"{settings().docs_url.rstrip('/') or DOCS}/{RUNBOOKS}/{name}.md"
