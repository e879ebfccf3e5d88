"""Airflow's REST API, as far as the platform needs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Self

import httpx

from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings

ATTEMPTS = 5


@dataclass(frozen=True)
class Run:
    """One DAG run."""

    dag: str
    run_id: str
    day: date
    state: str


class AirflowApi:
    """A logged-in session."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.airflow_url
        self._login = {"username": settings.airflow_user, "password": settings.airflow_password.get_secret_value()}
        self._client = httpx.Client(base_url=self._url, timeout=60, trust_env=False)

    def __enter__(self) -> Self:
        token = self._call("POST", "/auth/token", json=self._login)["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def dags(self) -> set[str]:
        """Ids of all DAGs that have been parsed."""
        return {dag["dag_id"] for dag in self._pages("/api/v2/dags", "dags")}

    def unpause(self, dag: str) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag}", json={"is_paused": False})

    def runs(self, dag: str, first: date, last: date) -> list[Run]:
        """Runs whose logical date is one of these days."""
        window = {"logical_date_gte": f"{first}T00:00:00Z", "logical_date_lte": f"{last}T23:59:59Z"}
        found = self._pages(f"/api/v2/dags/{dag}/dagRuns", "dag_runs", **window)
        return [
            Run(dag, run["dag_run_id"], datetime.fromisoformat(run["logical_date"]).date(), run["state"])
            for run in found
        ]

    def failure(self, run: Run) -> tuple[str, str]:
        """The task that failed first in a run, and the last line of its log."""
        path = f"/api/v2/dags/{run.dag}/dagRuns/{run.run_id}/taskInstances"
        failed = [task for task in self._pages(path, "task_instances") if task["state"] == "failed"]
        if not failed:
            return "unknown", "no task of it failed"
        first = min(failed, key=lambda task: task["end_date"] or "")
        return first["task_id"], self.last_line(run, first["task_id"], first["try_number"])

    def last_line(self, run: Run, task: str, try_number: int = 1) -> str:
        """The last line of a task's log."""
        path = f"/api/v2/dags/{run.dag}/dagRuns/{run.run_id}/taskInstances/{task}/logs/{try_number}"
        return _last_event(self._call("GET", path, params={"full_content": True})["content"])

    def trigger(self, dag: str, **form: Any) -> Run:
        """Start a run by hand, with what its form asks for."""
        made = self._call("POST", f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None, "conf": form})
        return Run(dag, made["dag_run_id"], datetime.now(UTC).date(), made["state"])

    def state(self, run: Run) -> str:
        return str(self._call("GET", f"/api/v2/dags/{run.dag}/dagRuns/{run.run_id}")["state"])

    def _pages(self, path: str, key: str, **query: Any) -> Iterator[dict[str, Any]]:
        seen = 0
        while True:
            page = self._call("GET", path, params={**query, "limit": 100, "offset": seen})
            yield from page[key]
            seen += len(page[key])
            if not page[key] or seen >= page["total_entries"]:
                return

    def _call(self, method: str, path: str, **options: Any) -> Any:
        answer = self._ask(method, path, **options)
        if answer.is_error:
            raise LakehouseError(f"Airflow at {self._url} refused {method} {path}: {answer.status_code}.")
        return answer.json()

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request; one that only reads is repeated while a busy machine lets it time out."""
        for attempt in range(ATTEMPTS if method == "GET" else 1):
            try:
                return self._client.request(method, path, headers={"Accept": "application/json"}, **options)
            except httpx.TransportError:
                time.sleep(attempt)
        raise LakehouseError(f"Airflow at {self._url} does not answer: see `lakehouse status`.")


def _last_event(content: Any) -> str:
    """The last line that a task's log says something in."""
    events = [entry.get("event", "") if isinstance(entry, dict) else str(entry) for entry in content]
    lines = [line.strip() for event in events for line in str(event).splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not line.startswith("::")), "its log is empty")
