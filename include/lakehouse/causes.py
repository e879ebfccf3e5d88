"""Why something is late or wrong: the closed list of causes."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What keeps an interval from being there, or a table from being healthy. Each has a runbook."""

    UPSTREAM_LATE = "upstream_late"
    SENSOR_WAITING = "sensor_waiting"
    LEASE_WAITING = "lease_waiting"
    TASK_RUNNING = "task_running"
    TASK_QUEUED = "task_queued"
    TASK_RETRYING = "task_retrying"
    TASK_FAILED = "task_failed"
    GATE_FAILED = "gate_failed"
    PUBLISHED_NOTHING = "published_nothing"
    ROLLED_BACK = "rolled_back"
    DAG_PAUSED = "dag_paused"
    DAG_MISSING = "dag_missing"
    NO_RUN = "no_run"
    SCHEDULER_DOWN = "scheduler_down"
    TRIGGERER_DOWN = "triggerer_down"
    AIRFLOW_DOWN = "airflow_down"
    CATALOG_DOWN = "catalog_down"
    WATCH_DOWN = "watch_down"
    TABLE_WORN = "table_worn"
    MAINTENANCE_LATE = "maintenance_late"
