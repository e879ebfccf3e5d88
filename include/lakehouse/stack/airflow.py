"""Airflow's four services, each with its own health check, and the first start of its database."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import psutil

from lakehouse.errors import LakehouseError
from lakehouse.naming import MAINTENANCE_POOL, SPARK_POOL
from lakehouse.roles import Role
from lakehouse.settings import Settings, environment
from lakehouse.stack.airflow_env import airflow_environment
from lakehouse.stack.paths import write_private
from lakehouse.stack.probe import get
from lakehouse.stack.service import MARKER, Service
from lakehouse.stack.spark import script

IDLE_WORKER = "LocalExecutor: <idle>"
POOLS = (
    {"name": SPARK_POOL, "slots": 2, "description": "Spark jobs at a time"},
    {"name": MAINTENANCE_POOL, "slots": 2, "description": "Maintenance at a time"},
)


@dataclass(frozen=True)
class _Airflow(Service):
    group = "airflow"
    stage = 2
    patience = 300

    arguments: ClassVar[tuple[str, ...]]

    def command(self) -> list[str]:
        return [str(script("airflow")), *self.arguments]

    def environment(self) -> dict[str, str]:
        # Steps know in which role they work. What they do besides, as waiting for tables, only looks.
        return {**airflow_environment(self.settings), "LAKEHOUSE_ROLE": Role.TRANSFORM}

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
    """Bring Airflow's database to this version, once per version, and people and pools to what they should be."""
    folder = settings.home / "airflow"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    done = _ready(settings)
    if not done.exists():
        _airflow(settings, "db", "migrate")
    _ensure_people_and_pools(settings)
    done.touch()


def _ready(settings: Settings) -> Path:
    return settings.home / "airflow" / f"ready-{version('apache-airflow')}"


def is_set_up(settings: Settings) -> bool:
    """Whether Airflow's database has been made."""
    return _ready(settings).exists()


def rotate_fernet_key(settings: Settings, old: str) -> None:
    """Encrypt with the settings' key what Airflow encrypted with the old one."""
    both = f"{settings.airflow_fernet_key.get_secret_value()},{old}"
    _run(settings, [str(script("airflow")), "rotate-fernet-key"], more={"AIRFLOW__CORE__FERNET_KEY": both})


def people(settings: Settings) -> list[dict[str, str]]:
    """Who may log in to Airflow, as what, with which password; nobody without one."""
    known = (
        (settings.airflow_user, "Admin", settings.airflow_password),
        (settings.airflow_operator, "Operator", settings.airflow_operator_password),
        (settings.airflow_viewer, "Viewer", settings.airflow_viewer_password),
    )
    found = [{"name": name, "role": role, "password": secret.get_secret_value()} for name, role, secret in known]
    return [one for one in found if one["password"]]


def _ensure_people_and_pools(settings: Settings) -> None:
    """Make them where what is wanted has changed since; the passwords go through standard input."""
    wanted = json.dumps({"pools": POOLS, "people": people(settings)})
    done, digest = settings.home / "airflow" / "people", hashlib.sha256(wanted.encode()).hexdigest()
    if done.exists() and done.read_text() == digest:
        return
    _run(settings, [sys.executable, "-m", "lakehouse_airflow.set_up"], wanted)
    write_private(done, digest)


def _airflow(settings: Settings, *arguments: str) -> None:
    _run(settings, [str(script("airflow")), *arguments])


def _run(settings: Settings, command: list[str], told: str = "", more: Mapping[str, str] | None = None) -> None:
    """A command of Airflow's, to its end; what it says is kept in a log."""
    env = {**environment(), **airflow_environment(settings), **(more or {})}
    done = subprocess.run(command, env=env, input=told, capture_output=True, text=True, check=False)
    log = Path(settings.home / "logs" / "airflow-setup.log")
    with log.open("a", encoding="utf-8") as file:
        file.write(done.stdout + done.stderr)
    if done.returncode:
        said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no message")
        what = " ".join([Path(command[0]).name, *command[1:3]])
        raise LakehouseError(f"`{what}` failed ({said.strip()}): see {log}.")
