"""Stacks that tests start: on free ports, in a folder of their own."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse import catalog, coverages, settings, store
from lakehouse.ledger import database
from lakehouse.settings import Settings
from lakehouse.stack import lifecycle
from lakehouse.stack.supervision import Supervisor

LAKEHOUSE = Path(sys.executable).parent / "lakehouse"
PORTS = [name for name in Settings.model_fields if name.endswith("_port")]
COMMAND_SECONDS = 600


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, below the range from which the system picks ports of its own."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 2_000):
        with socket.socket() as probe:
            if len(found) < count and probe.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
    return found


def eventually(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.5)


class Stack:
    """One stack, its folder, and the environment that leads to it."""

    def __init__(self, folder: Path, **given: str) -> None:
        self.folder = folder
        self.environment = {
            "LAKEHOUSE_HOME": str(folder / ".lakehouse"),
            "LAKEHOUSE_ENV_FILE": str(folder / ".env"),
        }
        if not (folder / ".env").exists():
            ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
            lines = [f"LAKEHOUSE_{name.upper()}={value}\n" for name, value in {**ports, **given}.items()]
            (folder / ".env").write_text("".join(lines))

    @property
    def settings(self) -> Settings:
        return Settings(_env_file=self.folder / ".env", home=self.folder / ".lakehouse")

    def lakehouse(
        self, *arguments: str, check: bool = True, timeout: float = COMMAND_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run the command as a user would."""
        done = subprocess.run(
            [LAKEHOUSE, *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0 or not check, f"lakehouse {' '.join(arguments)}: {done.stderr}{self.last_lines()}"
        return done

    def last_lines(self) -> str:
        """The end of every log, for a failure's report."""
        names = [log.stem for log in (self.folder / ".lakehouse" / "logs").glob("*.log")]
        return "".join(f"\n{name}: {lifecycle.last_line(self.settings, name)}" for name in names)

    def healthy(self) -> bool:
        """Whether everything that was started works."""
        states = Supervisor(self.settings).states()
        started = {name for name, state in states.items() if state.state != "STOPPED"}
        return all(one.healthy for one in lifecycle.status(self.settings) if one.service in started)

    def healthy_services(self) -> set[str]:
        return {one.service for one in lifecycle.status(self.settings) if one.healthy}

    def pid(self, service: str) -> int:
        return Supervisor(self.settings).states()[service].pid


def kill_spark(stack: Stack) -> None:
    """Kill the Connect server outright, and wait until there is a new one."""
    pid = stack.pid("spark")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: stack.pid("spark") not in (0, pid) and stack.healthy(), 180, "Spark is back")


@contextmanager
def inside(stack: Stack) -> Iterator[None]:
    """This process works on another stack than the tests' shared one."""
    before = {name: os.environ.get(name) for name in stack.environment}
    os.environ.update(stack.environment)
    forget_connections()
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        forget_connections()


def forget_connections() -> None:
    """The next one who asks connects anew, by the settings of then."""
    for known in (settings.settings, database.engine, catalog.catalog_of, coverages._catalog, store._client):
        known.cache_clear()
