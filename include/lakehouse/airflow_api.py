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
PATIENCE = 60.0


@dataclass(frozen=True)
class Run:
    """One DAG run."""

    dag: str
    run_id: str
    day: date
    state: str
    note: str | None = None


@dataclass(frozen=True)
class Task:
    """One task of a run, as it stands."""

    task_id: str
    state: str | None
    try_number: int
    since: str | None


class AirflowUnreachable(LakehouseError, ConnectionError):
    """Airflow's API does not answer."""


class NotThere(LakehouseError, LookupError):
    """Airflow does not know what was asked for."""


class AirflowApi:
    """A session that logs in when it must: Airflow takes a few logins a minute, and a token for a day."""

    def __init__(self, settings: Settings, patience: float = PATIENCE, attempts: int = ATTEMPTS) -> None:
        self._url = settings.airflow_api_url
        self._attempts = attempts
        self._login = _login(settings)
        self._client = httpx.Client(base_url=self._url, timeout=patience, trust_env=False)

    def __enter__(self) -> Self:
        self.log_in()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def log_in(self) -> None:
        answer = self._ask("POST", "/auth/token", json=self._login)
        if answer.is_error:
            raise LakehouseError(f"Airflow at {self._url} refuses the login of {self._login['username']}.")
        found = self._read(answer)
        if not isinstance(found, dict) or "access_token" not in found:
            raise self._stranger()
        self._client.headers["Authorization"] = f"Bearer {found['access_token']}"

    def dags(self) -> set[str]:
        """Ids of all DAGs that have been parsed."""
        return set(self.paused())

    def health(self) -> dict[str, str | None]:
        """What Airflow says of its processes: each one's status."""
        found: dict[str, dict[str, Any]] = self._call("GET", "/api/v2/monitor/health")
        return {name: (about or {}).get("status") for name, about in found.items()}

    def paused(self) -> dict[str, bool]:
        """Every DAG that has been parsed, and whether it is paused."""
        return {dag["dag_id"]: bool(dag["is_paused"]) for dag in self._pages("/api/v2/dags", "dags")}

    def run_at(self, dag: str, logical_date: datetime) -> Run | None:
        """The run of one logical date."""
        at = logical_date.isoformat()
        found = self._pages(f"/api/v2/dags/{dag}/dagRuns", "dag_runs", logical_date_gte=at, logical_date_lte=at)
        try:
            return next((_run(one) for one in found), None)
        except NotThere:  # a DAG that was just parsed is listed before it can be asked for its runs
            return None

    def failed_runs(self, since: datetime) -> set[tuple[str, datetime]]:
        """The runs that have failed, by DAG and logical date, from this logical date on."""
        query = {"state": "failed", "logical_date_gte": since.isoformat()}
        found = self._pages("/api/v2/dags/~/dagRuns", "dag_runs", **query)
        return {(run["dag_id"], datetime.fromisoformat(run["logical_date"])) for run in found}

    def tasks(self, run: Run) -> list[Task]:
        path = f"/api/v2/dags/{run.dag}/dagRuns/{run.run_id}/taskInstances"
        return [
            Task(one["task_id"], one["state"], one["try_number"], one["start_date"] or one["scheduled_when"])
            for one in self._pages(path, "task_instances")
        ]

    def note(self, run: Run, text: str) -> None:
        """Leave a note on a run, in place of the one it has."""
        path = f"/api/v2/dags/{run.dag}/dagRuns/{run.run_id}"
        self._call("PATCH", path, params={"update_mask": "note"}, json={"note": text[:1000]})

    def unpause(self, dag: str) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag}", json={"is_paused": False})

    def runs(self, dag: str, first: date, last: date) -> list[Run]:
        """Runs whose logical date is one of these days."""
        window = {"logical_date_gte": f"{first}T00:00:00Z", "logical_date_lte": f"{last}T23:59:59Z"}
        found = self._pages(f"/api/v2/dags/{dag}/dagRuns", "dag_runs", **window)
        return [_run(one) for one in found]

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
        if "Authorization" not in self._client.headers:
            self.log_in()
        answer = self._ask(method, path, **options)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            self.log_in()
            answer = self._ask(method, path, **options)
        if answer.is_error:
            kind = NotThere if answer.status_code == httpx.codes.NOT_FOUND else LakehouseError
            raise kind(f"Airflow at {self._url} refused {method} {path}: {answer.status_code}.")
        return self._read(answer)

    def _read(self, answer: httpx.Response) -> Any:
        """What an answer says; a page of somebody in between is none."""
        try:
            return answer.json()
        except ValueError:
            raise self._stranger() from None

    def _stranger(self) -> AirflowUnreachable:
        return AirflowUnreachable(f"what answers at {self._url} is not Airflow's API: see `lakehouse status`.")

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request; one that only reads is repeated while a busy machine lets it time out."""
        for attempt in range(self._attempts if method == "GET" else 1):
            try:
                return self._client.request(method, path, headers={"Accept": "application/json"}, **options)
            except httpx.TransportError:
                time.sleep(attempt)
        raise AirflowUnreachable(f"Airflow at {self._url} does not answer: see `lakehouse status`.")


def _login(settings: Settings) -> dict[str, str]:
    """The operator's, who may do all that the platform needs; another Airflow may know only one user."""
    password = settings.airflow_operator_password.get_secret_value()
    if password:
        return {"username": settings.airflow_operator, "password": password}
    return {"username": settings.airflow_user, "password": settings.airflow_password.get_secret_value()}


def _run(found: dict[str, Any]) -> Run:
    day = datetime.fromisoformat(found["logical_date"]).date()
    return Run(found["dag_id"], found["dag_run_id"], day, found["state"], found.get("note"))


def _last_event(content: Any) -> str:
    """The last line that a task's log says something in; of an exception, what it says."""
    events = [_said(entry) if isinstance(entry, dict) else str(entry) for entry in content]
    lines = [line.strip() for event in events for line in event.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not line.startswith("::")), "its log is empty")


def _said(entry: dict[str, Any]) -> str:
    raised = next((one.get("exc_value") for one in entry.get("error_detail") or () if one.get("exc_value")), None)
    return str(raised or entry.get("event", ""))
