"""Supervisor: its configuration, its life, and a typed way to talk to it."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

import psutil

from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings, environment
from lakehouse.stack import paths
from lakehouse.stack.service import MARKER, Service

RUNNING = "RUNNING"
DOWN = frozenset({"STOPPED", "EXITED", "FATAL", "UNKNOWN"})
NOT_RUNNING_FAULT = 70
ALREADY_STARTED_FAULT = 60


@dataclass(frozen=True)
class ProcessState:
    """What supervisor knows about a service."""

    state: str
    pid: int
    started: float


def configuration(settings: Settings, services: Sequence[Service]) -> str:
    """supervisord's configuration file. It names services only: no secret, no port."""
    run = settings.home / "run"
    head = f"""\
[supervisord]
logfile={_escape(paths.log_file(settings, "supervisord"))}
logfile_maxbytes=5MB
logfile_backups=1
pidfile={_escape(run / "supervisord.pid")}
directory={_escape(settings.home)}
umask=077

[unix_http_server]
file={_escape(paths.socket_file(settings))}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
"""
    return head + "".join(_program(settings, service) for service in services)


def _program(settings: Settings, service: Service) -> str:
    command = shlex.join([sys.executable, "-m", "lakehouse.stack.launch", service.name])
    return f"""
[program:{service.name}]
command={_escape(command)}
autostart=false
autorestart=true
startsecs=1
startretries=30
stopsignal={service.stop_signal}
stopwaitsecs=30
killasgroup=true
redirect_stderr=true
stdout_logfile={_escape(paths.log_file(settings, service.name))}
stdout_logfile_maxbytes=20MB
stdout_logfile_backups=1
"""


def _escape(value: object) -> str:
    return str(value).replace("%", "%%")


class Supervisor:
    """The supervisord of one stack."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def _rpc(self) -> Any:
        """A new connection each time: one that failed once cannot be used again."""
        from supervisor.xmlrpc import SupervisorTransport

        transport = SupervisorTransport(None, None, f"unix://{paths.socket_file(self.settings)}")
        return ServerProxy("http://127.0.0.1", transport=transport).supervisor

    @property
    def pid(self) -> int | None:
        """Its process id, if it answers."""
        try:
            return int(self._rpc.getPID())
        except (OSError, Fault):
            return None

    def ensure(self, services: Sequence[Service]) -> None:
        """Have it running with today's list of services, without touching those that run already."""
        conf = self.settings.home / "run" / "supervisord.conf"
        paths.write_private(conf, configuration(self.settings, services))
        if self.pid is None:
            self._start(conf)
            return
        added, _, removed = self._rpc.reloadConfig()[0]
        for name in removed:
            self.stop(name)
            self._rpc.removeProcessGroup(name)
        for name in added:
            self._rpc.addProcessGroup(name)

    def _start(self, conf: Path) -> None:
        socket = paths.socket_file(self.settings)
        paths.make_private(socket.parent)
        socket.unlink(missing_ok=True)
        command: list[str | Path] = [sys.executable, "-m", "supervisor.supervisord", "-c", conf]
        env = {**environment(), MARKER: str(self.settings.home), "LAKEHOUSE_HOME": str(self.settings.home)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while self.pid is None:
            if done.returncode or time.monotonic() > deadline:
                last = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["see its log"]
                raise LakehouseError(f"supervisord did not start: {last[0]}")
            time.sleep(0.05)

    def states(self) -> dict[str, ProcessState]:
        """Each known service's state; empty when supervisord is not running."""
        try:
            known = self._rpc.getAllProcessInfo()
        except (OSError, Fault):
            return {}
        return {one["name"]: ProcessState(one["statename"], one["pid"], float(one["start"])) for one in known}

    def start(self, name: str) -> None:
        try:
            self._rpc.startProcess(name, False)
        except Fault as fault:
            if fault.faultCode != ALREADY_STARTED_FAULT:
                raise

    def stop(self, name: str, *, wait: bool = True) -> None:
        """Stop a service; supervisor kills it when it does not end in time."""
        try:
            self._rpc.stopProcess(name, wait)
        except Fault as fault:
            if fault.faultCode != NOT_RUNNING_FAULT:
                raise

    def shutdown(self) -> None:
        """End supervisord, and wait for it."""
        pid = self.pid
        if pid is None:
            return
        process = psutil.Process(pid)
        self._rpc.shutdown()
        process.wait(60)
