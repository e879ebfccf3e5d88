"""Airflow's REST API, as far as backfills need it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakehouse.advice import IMPORT_ERRORS
from lakehouse.airflow_api import AirflowApi, Run
from lakehouse.errors import LakehouseError


@dataclass(frozen=True)
class Dag:
    """What a backfill has to know of a DAG."""

    dag_id: str
    paused: bool
    max_active_runs: int


class Backfills(AirflowApi):
    """A session that makes backfills and looks at their runs, for as long as it takes."""

    def dag(self, dag_id: str) -> Dag:
        known = {one["dag_id"]: one for one in self._pages("/api/v2/dags", "dags", dag_id_pattern=dag_id)}
        if dag_id not in known:
            raise LakehouseError(f"Airflow does not know {dag_id}; `{IMPORT_ERRORS}` may say why")
        return Dag(dag_id, bool(known[dag_id]["is_paused"]), int(known[dag_id]["max_active_runs"] or 1))

    def slots(self, pool: str) -> int:
        """How many tasks a pool lets run at a time."""
        return int(self._call("GET", f"/api/v2/pools/{pool}")["slots"])

    def runs_by_start(self, dag_id: str, first: datetime, last: datetime) -> dict[datetime, Run]:
        """The runs of the intervals that begin from `first` to `last`, by that begin."""
        window = {"logical_date_gte": first.isoformat(), "logical_date_lte": last.isoformat()}
        found = self._pages(f"/api/v2/dags/{dag_id}/dagRuns", "dag_runs", order_by="logical_date", **window)
        starts = [(datetime.fromisoformat(run["logical_date"]), run) for run in found]
        return {start: Run(dag_id, run["dag_run_id"], start.date(), run["state"]) for start, run in starts}

    def open_backfills(self, dag_id: str) -> list[int]:
        """The DAG's backfills that are not complete; there is one at most."""
        found = self._pages("/api/v2/backfills", "backfills", dag_id=dag_id, order_by="-id")
        return [int(one["id"]) for one in found if one["completed_at"] is None]

    def backfill(self, dag_id: str, first: datetime, last: datetime, at_a_time: int) -> int:
        """Run every interval that begins from `first` to `last`, those that have run before once more."""
        body = {
            "dag_id": dag_id,
            "from_date": first.isoformat(),
            "to_date": last.isoformat(),
            "reprocess_behavior": "completed",
            "max_active_runs": at_a_time,
        }
        return int(self._call("POST", "/api/v2/backfills", json=body)["id"])
