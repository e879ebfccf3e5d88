"""A clone of the project of the tests' own, and its containers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from lakehouse.settings import ROOT
from tests.containers.engine import Engine
from tests.stack.harness import PORTS, eventually, free_ports

NAME = "lakehouse-test"
OVERRIDE = "docker-compose.override.yaml"
# Two workers of one core each, as the test machine may have no more.
SETTINGS = {"SPARK_WORKER_CORES": "1", "SPARK_WORKER_MEMORY": "1g", "SPARK_DRIVER_MEMORY": "1500m", "TASK_RETRIES": "2"}


class Project:
    """What a user has after cloning, with ports that nobody holds."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)

    def make_env(self) -> None:
        """`make env`, after lines of the user's own."""
        ports = {name.upper(): str(port) for name, port in zip(PORTS, free_ports(len(PORTS)), strict=True)}
        lines = [f"LAKEHOUSE_{name}={value}\n" for name, value in {**ports, **SETTINGS}.items()]
        (self.folder / ".env").write_text("".join(lines))
        subprocess.run(["make", "env"], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        if self.engine.old():
            self._suit_an_old_engine()

    def _suit_an_old_engine(self) -> None:
        """Before 25 there is one pace for health checks only; the file says no more than that, and merges by itself."""
        services = yaml.safe_load((self.folder / "docker-compose.yaml").read_text())["services"]
        lines = [
            f"  {name}:\n    healthcheck:\n      interval: 15s\n      start_interval: !reset null\n"
            for name, about in services.items()
            if "healthcheck" in about
        ]
        (self.folder / OVERRIDE).write_text("services:\n" + "".join(lines))

    def compose(self, *arguments: str, check: bool = True, timeout: float = 1800) -> subprocess.CompletedProcess[str]:
        return self.engine.docker(
            "compose", "--project-name", NAME, *arguments, check=check, cwd=self.folder, timeout=timeout
        )

    def containers(self, *services: str) -> list[dict[str, Any]]:
        """Every container, those that have ended too, as Compose shows them."""
        shown = self.compose("ps", "--all", "--format", "json", *services).stdout
        return [json.loads(line) for line in shown.splitlines() if line.strip()]

    def ended(self, service: str) -> int | None:
        """The exit code of a service that was to end, or None while it runs."""
        found = self.containers(service)
        return int(found[0]["ExitCode"]) if found and found[0]["State"] == "exited" else None

    def await_end(self, service: str, seconds: float) -> str:
        """Wait until a service has ended well; returns what it said."""
        eventually(lambda: self.ended(service) is not None, seconds, f"{service} ends; {self.states()}")
        said = self.compose("logs", "--no-log-prefix", service).stdout
        assert self.ended(service) == 0, f"{service} failed: {said[-2000:]}"
        return said

    def states(self) -> dict[str, str]:
        return {one["Name"]: one["Status"] for one in self.containers()}

    def down(self) -> None:
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "20")
