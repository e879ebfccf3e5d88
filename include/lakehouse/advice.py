"""What to try first, and where to read on, for each cause."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

from lakehouse.causes import Cause
from lakehouse.intervals import Interval
from lakehouse.naming import dag_id, layer_of
from lakehouse.settings import settings

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
_BACKFILL = "lakehouse airflow dags backfill -s {day} -e {day} {dag}"
# What looks at, or mends, one interval of one dataset, or its table.
_DATASETS = {
    Cause.UPSTREAM_LATE: "lakehouse sla",
    Cause.SENSOR_WAITING: _STATES,
    Cause.LEASE_WAITING: "lakehouse airflow dags list-runs {dag} --state running",
    Cause.TASK_RUNNING: _STATES,
    Cause.TASK_QUEUED: "lakehouse logs airflow-scheduler",
    Cause.TASK_RETRYING: _STATES,
    Cause.TASK_FAILED: f"{_BACKFILL} --rerun-failed-tasks",
    Cause.GATE_FAILED: "lakehouse gates {dataset} --wrong",
    Cause.PUBLISHED_NOTHING: f"{_BACKFILL} --reset-dagruns -y",
    Cause.ROLLED_BACK: "lakehouse snapshots {dataset}",
    Cause.DAG_PAUSED: "lakehouse airflow dags unpause {dag}",
    Cause.DAG_MISSING: "lakehouse airflow dags list-import-errors",
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
    form = "lakehouse landing {dataset} {day}" if waits_for_files else _DATASETS[cause]
    known: dict[str, str] = {}
    if dataset:
        known |= {"dataset": dataset, "dag": dag_id(dataset)}
    if interval:
        known |= {"day": begin(interval, timezone), "moment": interval.start.isoformat()}
    try:
        return form.format(**known)
    except KeyError:
        return None


def runbook(cause: Cause | None) -> str | None:
    """The cause's page."""
    return page(cause) if cause else None


def page(name: str) -> str:
    """A page of the runbooks: in a browser if the setting says where, else its path in the repository."""
    return f"{settings().docs_url.rstrip('/') or DOCS}/{RUNBOOKS}/{name}.md"


def begin(interval: Interval, timezone: str) -> str:
    """An interval as commands take it: by its day in the dataset's zone, or by its start where a day has several."""
    # The day on which clocks go forward has 23 hours.
    if interval.end - interval.start >= timedelta(hours=23):
        return f"{interval.start.astimezone(ZoneInfo(timezone)):%Y-%m-%d}"
    return interval.start.isoformat(timespec="minutes")
