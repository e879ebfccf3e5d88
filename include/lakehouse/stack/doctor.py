"""Whether this machine can run the stack: each check ends in a fact, or in a sentence that says what to do."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from lakehouse.errors import LakehouseError
from lakehouse.settings import PREFIX, Settings, cache_dir
from lakehouse.stack.java import find_java
from lakehouse.stack.minio import find_minio
from lakehouse.stack.service import HOST, Service

GIB = 1024**3
PYTHONS = ((3, 11), (3, 12))
# A first start stores some 0.5 GiB in the cache (2 GiB while MinIO is built) and 0.2 GiB of state.
FREE_DISK = 3 * GIB
MEMORY = 5 * GIB


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    check: str
    ok: bool
    says: str


def examine(settings: Settings, starting: Iterable[Service]) -> Iterator[Finding]:
    """All checks; ports only of services that are about to start, as the others hold theirs rightly."""
    checks: dict[str, Callable[[], str]] = {
        "python": check_python,
        "java": check_java,
        "minio": check_minio,
        "disk": partial(check_disk, settings),
        "memory": check_memory,
    }
    for service in starting:
        for setting, port in service.ports().items():
            checks[f"port {port}"] = partial(check_port, service.name, setting, port)
    for name, check in checks.items():
        try:
            yield Finding(name, True, check())
        except LakehouseError as error:
            yield Finding(name, False, str(error))


def demand(settings: Settings, starting: Iterable[Service]) -> None:
    """Raise the first complaint, if there is one."""
    for finding in examine(settings, starting):
        if not finding.ok:
            raise LakehouseError(finding.says)


def check_python() -> str:
    if sys.version_info[:2] not in PYTHONS:
        raise LakehouseError(
            f"Python {sys.version.split()[0]} is not supported: make the environment with 3.11 or 3.12."
        )
    return sys.version.split()[0]


def check_java() -> str:
    java = find_java()
    return f"{java.version} in {java.home}"


def check_minio() -> str:
    found = find_minio()
    return str(found) if found else "not there yet, `lakehouse up` builds it (about 5 minutes, once per machine)"


def check_disk(settings: Settings) -> str:
    free = {}
    for folder in (settings.home, cache_dir()):
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free[there] = shutil.disk_usage(there).free
        if free[there] < FREE_DISK:
            raise LakehouseError(_too_little(there, free[there]))
    return f"{min(free.values()) / GIB:.0f} GiB free"


def _too_little(folder: Path, free: int) -> str:
    needed = FREE_DISK // GIB
    return f"Only {free / GIB:.1f} GiB are free in {folder}, {needed} are needed: make room, or set LAKEHOUSE_HOME."


def check_memory() -> str:
    total = psutil.virtual_memory().total
    if total < MEMORY:
        raise LakehouseError(f"This machine has {total / GIB:.1f} GiB of memory, the stack needs {MEMORY // GIB}.")
    return f"{total / GIB:.0f} GiB"


def check_port(service: str, setting: str, port: int) -> str:
    """That nobody else listens there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            name = f"{PREFIX}{setting.upper()}"
            raise LakehouseError(
                f"Port {port} for {service} is taken by {holder(port)}: stop that, or set {name} to another port."
            ) from None
    return f"free for {service}"


def holder(port: int) -> str:
    """Who listens on a port, as well as we may know."""
    try:
        pids = [c.pid for c in psutil.net_connections("tcp") if c.laddr and c.laddr.port == port and c.pid]
        process = psutil.Process(pids[0])
        return f"{process.name()} (process {process.pid})"
    except (psutil.Error, IndexError):
        return "another program"
