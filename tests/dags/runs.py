"""Runs of an interval as tasks see them, for tests without Airflow's own."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

DAY = "2026-01-01T00:00:00+00:00/2026-01-02T00:00:00+00:00"


def context(start: datetime | None, end: datetime | None) -> Any:
    run = SimpleNamespace(data_interval_start=start, data_interval_end=end)
    task = SimpleNamespace(dag_id="bronze_orders", run_id="scheduled__2026-01-01", try_number=2)
    return {"dag_run": run, "ti": task}


FIRST = context(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
