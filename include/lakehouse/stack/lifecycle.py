"""Starting, stopping and looking at the stack as a whole."""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby

from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings
from lakehouse.stack import doctor, paths, strays
from lakehouse.stack.registry import services
from lakehouse.stack.service import Service
from lakehouse.stack.shell import write_env_file
from lakehouse.stack.supervision import DOWN, RUNNING, ProcessState, Supervisor

STARTS_TO_GIVE_UP = 5

Tell = Callable[[str, str], None]


def silent(_service: str, _state: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Status:
    """One service as a user sees it."""

    service: str
    state: str
    healthy: bool
    pid: int
    uptime: float
    address: str

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def up(settings: Settings, only: str = "", tell: Tell = silent) -> None:
    """Start what is not running and wait until all of it is healthy; what works is left alone.

    `only` names a group of services, or one of them.
    """
    wanted = [service for service in services(settings) if only in ("", service.group, service.name)]
    if not wanted:
        known = ", ".join(dict.fromkeys(service.group for service in services(settings)))
        raise LakehouseError(f"There is no group or service {only!r}: groups are {known}.")
    with _exclusively(settings):
        supervisor = Supervisor(settings)
        if supervisor.pid is None:
            strays.end(settings)
        states = supervisor.states()
        doctor.demand(settings, (one for one in wanted if not _runs(states.get(one.name))))
        supervisor.ensure(services(settings))
        write_env_file(settings)
        for _, stage in groupby(wanted, key=lambda service: service.stage):
            _start_stage(supervisor, list(stage), tell)


def down(settings: Settings, tell: Tell = silent) -> None:
    """Stop all services, last started first, then supervisord, then whatever else is left of this stack."""
    if not settings.home.exists():
        return
    with _exclusively(settings):
        supervisor = Supervisor(settings)
        states = supervisor.states()
        alive = [service for service in reversed(services(settings)) if _runs(states.get(service.name))]
        for _, stage in groupby(alive, key=lambda service: service.stage):
            _stop_stage(supervisor, list(stage), tell)
        supervisor.shutdown()
        strays.end(settings)
        paths.socket_file(settings).unlink(missing_ok=True)


def reset(settings: Settings, tell: Tell = silent) -> None:
    """Stop everything and forget all data; .env and its secrets stay."""
    down(settings, tell)
    shutil.rmtree(settings.home, ignore_errors=True)


def status(settings: Settings) -> list[Status]:
    """How each service is, asked all at once."""
    states = Supervisor(settings).states()
    known = services(settings)

    def look(service: Service) -> Status:
        state = states.get(service.name)
        if state is None or state.state != RUNNING:
            shown = state.state.lower() if state else "stopped"
            return Status(service.name, shown, False, 0, 0.0, service.address())
        healthy = service.healthy(state.started)
        uptime = max(0.0, time.time() - state.started)
        return Status(service.name, "running", healthy, state.pid, uptime, service.address())

    with ThreadPoolExecutor(len(known)) as pool:
        return list(pool.map(look, known))


def not_running(settings: Settings) -> list[Service]:
    """Services that an `up` would start."""
    states = Supervisor(settings).states()
    return [service for service in services(settings) if not _runs(states.get(service.name))]


def _runs(state: ProcessState | None) -> bool:
    return state is not None and state.state not in DOWN


def _start_stage(supervisor: Supervisor, stage: Sequence[Service], tell: Tell) -> None:
    states = supervisor.states()
    for service in stage:
        if states[service.name].state in DOWN:
            tell(service.name, "starting")
            service.prepare()
            supervisor.start(service.name)
    for service in stage:
        if not _becomes_healthy(supervisor, service):
            _restart(supervisor, service, tell)
        service.settle()
        tell(service.name, "healthy")


def _stop_stage(supervisor: Supervisor, stage: Sequence[Service], tell: Tell) -> None:
    for service in stage:
        tell(service.name, "stopping")
        supervisor.stop(service.name, wait=False)
    while any(_runs(supervisor.states().get(service.name)) for service in stage):
        time.sleep(0.1)


def _restart(supervisor: Supervisor, service: Service, tell: Tell) -> None:
    """One more try for a service that hangs; then say what it said last."""
    tell(service.name, "restarting")
    supervisor.stop(service.name)
    service.prepare()
    supervisor.start(service.name)
    if not _becomes_healthy(supervisor, service):
        said = last_line(supervisor.settings, service.name)
        raise LakehouseError(f"{service.name} does not become healthy ({said}): see `lakehouse logs {service.name}`.")


def _becomes_healthy(supervisor: Supervisor, service: Service) -> bool:
    """Wait for it; give up early on a service that keeps dying, which supervisor would go on starting for minutes."""
    deadline = time.monotonic() + service.patience
    starts: set[float] = set()
    while time.monotonic() < deadline:
        state = supervisor.states()[service.name]
        starts.add(state.started)
        if state.state in DOWN or len(starts) > STARTS_TO_GIVE_UP:
            return False
        if state.state == RUNNING and service.healthy(state.started):
            return True
        time.sleep(0.3)
    return False


def last_line(settings: Settings, name: str) -> str:
    """The last thing a service wrote to its log."""
    log = paths.log_file(settings, name)
    text = log.read_text(errors="replace") if log.exists() else ""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it wrote no log")[:300]


@contextmanager
def _exclusively(settings: Settings) -> Iterator[None]:
    """One `up` or `down` at a time for one stack."""
    for folder in (settings.home, settings.home / "run", paths.logs(settings)):
        paths.make_private(folder)
    with (settings.home / "run" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
