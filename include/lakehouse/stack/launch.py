"""`python -m lakehouse.stack.launch SERVICE`: become that service. Supervisor runs this, so its own configuration
holds no secret, and a restarted service reads the settings afresh."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping

from lakehouse.settings import environment, settings
from lakehouse.stack.privileges import die_with_parent, drop_root
from lakehouse.stack.registry import service
from lakehouse.stack.service import MARKER, Service

# With one of these, Spark in a service would not start but look for a server elsewhere.
_LEADS_ELSEWHERE = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def process_environment(found: Service, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a service: what `up` had, the service's own, and the mark by which `down` finds strays."""
    kept = {name: value for name, value in inherited.items() if name not in _LEADS_ELSEWHERE}
    # setproctitle, which Airflow uses, would overwrite the memory in which the mark is read.
    return {**kept, **found.environment(), MARKER: str(found.settings.home), "SPT_NOENV": "1"}


def launch(found: Service, parent: int) -> None:
    """Become the service; a signal ends it when `parent` dies."""
    command, env = found.command(), process_environment(found, environment())
    found.tidy()
    os.chdir(found.settings.home)
    if found.refuses_root:
        drop_root()
    die_with_parent(signal.Signals[f"SIG{found.stop_signal}"], parent)
    os.execvpe(command[0], command, env)  # noqa: S606


if __name__ == "__main__":
    launch(service(settings(), sys.argv[1]), os.getppid())
