"""Airflow's four services, each with its own health check, and the first start of its database."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import psutil

from lakehouse.errors import LakehouseError
from lakehouse.naming import SPARK_POOL
from lakehouse.settings import Settings, environment
from lakehouse.stack.airflow_env import airflow_environment
from lakehouse.stack.probe import get
from lakehouse.stack.service import MARKER, Service
from lakehouse.stack.spark import script

IDLE_WORKER = "LocalExecutor: <idle>"


@dataclass(frozen=True)
class _Airflow(Service):
    group = "airflow"
    stage = 2
    patience = 300

    arguments: ClassVar[tuple[str, ...]]

    def command(self) -> list[str]:
        return [str(script("airflow")), *self.arguments]

    def environment(self) -> dict[str, str]:
        return airflow_environment(self.settings)

    def prepare(self) -> None:
        ensure_database(self.settings)


@dataclass(frozen=True)
class ApiServer(_Airflow):
    name = "airflow-api-server"
    arguments = ("api-server",)

    def ports(self) -> dict[str, int]:
        return {"airflow_port": self.settings.airflow_port}

    def command(self) -> list[str]:
        return [*super().command(), "--host", self.settings.listen, "--port", str(self.settings.airflow_port)]

    def healthy(self, since: float) -> bool:  # noqa: ARG002
        return bool(_health(self.settings).get("metadatabase", {}).get("status") == "healthy")

    def address(self) -> str:
        return self.settings.airflow_url


@dataclass(frozen=True)
class _Beating(_Airflow):
    """A service that Airflow knows by its heartbeat; one from before this process started does not count."""

    component: ClassVar[str]

    def healthy(self, since: float) -> bool:
        found = _health(self.settings).get(self.component) or {}
        beat = found.get(f"latest_{self.component}_heartbeat")
        return found.get("status") == "healthy" and datetime.fromisoformat(str(beat)).timestamp() >= since


@dataclass(frozen=True)
class Scheduler(_Beating):
    name = "airflow-scheduler"
    stage = 3  # it starts tasks at once, and they need the catalog and Spark
    component = "scheduler"
    # Its log server would listen on every interface; the API server reads the files themselves.
    arguments = ("scheduler", "--skip-serve-logs")

    def tidy(self) -> None:
        """End the idle workers that a killed scheduler left waiting for ever. Busy ones finish their task."""
        for process in psutil.process_iter(["cmdline"]):
            title = " ".join(process.info["cmdline"] or ())
            try:
                if IDLE_WORKER in title and process.environ().get(MARKER) == str(self.settings.home):
                    process.kill()
            except psutil.Error:
                continue


@dataclass(frozen=True)
class DagProcessor(_Beating):
    name = "airflow-dag-processor"
    component = "dag_processor"
    arguments = ("dag-processor",)


@dataclass(frozen=True)
class Triggerer(_Beating):
    name = "airflow-triggerer"
    stage = 3
    component = "triggerer"
    arguments = ("triggerer", "--skip-serve-logs")


def _health(settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get(f"{settings.airflow_api_url}/api/v2/monitor/health") or "{}")
    return found


def ensure_database(settings: Settings) -> None:
    """Bring Airflow's database to this version and make its first user, once per version."""
    done = settings.home / "airflow" / f"ready-{version('apache-airflow')}"
    if done.exists():
        return
    done.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _airflow(settings, "db", "migrate")
    # Each is a start of Airflow of its own, which takes seconds: both at once.
    with ThreadPoolExecutor() as pool:
        user = pool.submit(_create_user, settings)
        pool.submit(_airflow, settings, "pools", "set", SPARK_POOL, "2", "Spark jobs at a time").result()
        user.result()
    done.touch()


def _create_user(settings: Settings) -> None:
    """The password goes through standard input: an argument would be seen in the process list."""
    user = settings.airflow_user
    who = ["--username", user, "--firstname", "Lakehouse", "--lastname", "Admin", "--email", f"{user}@localhost"]
    password = settings.airflow_password.get_secret_value()
    _airflow(settings, "users", "create", "--role", "Admin", *who, answers=f"{password}\n{password}\n")


def _airflow(settings: Settings, *arguments: str, answers: str = "") -> None:
    done = subprocess.run(
        [script("airflow"), *arguments],
        env={**environment(), **airflow_environment(settings)},
        input=answers,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,  # without a terminal, the prompt for a password reads standard input
    )
    log = Path(settings.home / "logs" / "airflow-setup.log")
    with log.open("a", encoding="utf-8") as file:
        file.write(done.stdout + done.stderr)
    if done.returncode:
        said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no message")
        raise LakehouseError(f"`airflow {' '.join(arguments[:2])}` failed ({said.strip()}): see {log}.")
