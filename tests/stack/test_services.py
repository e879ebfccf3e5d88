"""The services start, say how they are, come back when they are killed, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import psutil
import pytest

from lakehouse.stack import strays
from lakehouse.stack.supervision import Supervisor
from tests.stack.harness import LAKEHOUSE, eventually

DATA = ["postgres", "minio", "catalog", "spark"]
AIRFLOW = ["airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"]


def kill(running, *services: str) -> None:
    """kill -9 by pid, and wait for a process of another pid that is healthy, and all others with it."""
    before = {service: running.pid(service) for service in services}
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    eventually(
        lambda: all(running.pid(service) not in (0, pid) for service, pid in before.items()),
        60,
        f"{services} started again",
    )
    eventually(running.healthy, 240, f"all healthy after {services} were killed")


def test_status_shows_every_service_healthy(running, airflow) -> None:
    shown = {one["service"]: one for one in json.loads(running.lakehouse("status", "--json", check=False).stdout)}
    assert [name for name in (*DATA, *AIRFLOW) if not shown[name]["healthy"]] == []
    assert all(shown[name]["pid"] and shown[name]["state"] == "running" for name in (*DATA, *AIRFLOW))


def test_up_leaves_what_works_alone(running, airflow) -> None:
    before = Supervisor(running.settings).states()
    running.lakehouse("up", "--only", "data")
    running.lakehouse("up", "--only", "airflow")
    assert Supervisor(running.settings).states() == before


def test_the_env_file_gives_a_shell_the_stacks_commands(running, airflow) -> None:
    script = '. "$LAKEHOUSE_HOME/env" && command -v airflow spark-submit lakehouse && airflow config get-value api port'
    clean = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], **running.environment}
    done = subprocess.run(["sh", "-c", script], env=clean, capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == str(airflow.airflow_port)


def test_lakehouse_airflow_passes_its_arguments_on(running, airflow) -> None:
    shown = running.lakehouse("airflow", "version").stdout.strip().splitlines()
    assert shown[-1].startswith("3.")


@pytest.mark.parametrize("service", DATA)
def test_a_killed_service_comes_back(running, airflow, service) -> None:
    kill(running, service)


def test_killed_airflow_services_come_back(running, airflow) -> None:
    kill(running, *AIRFLOW)


def test_a_killed_scheduler_leaves_no_idle_workers(running, airflow) -> None:
    def workers() -> list[psutil.Process]:
        ours = {one.pid for one in strays.members(running.settings)}
        titles = ((one, " ".join(one.info["cmdline"] or ())) for one in psutil.process_iter(["cmdline"]))
        return [one for one, title in titles if one.pid in ours and "LocalExecutor" in title]

    first = {one.pid for one in workers()}
    assert first
    kill(running, "airflow-scheduler")
    eventually(lambda: bool(workers()) and not first & {one.pid for one in workers()}, 120, "the old workers ended")


def test_nothing_survives_a_killed_supervisor_and_up_repairs(private_stack) -> None:
    private_stack.lakehouse("up", "--only", "postgres")
    members = strays.members(private_stack.settings)
    supervisor = psutil.Process(Supervisor(private_stack.settings).pid)
    assert supervisor in members
    supervisor.kill()
    psutil.wait_procs(members, 30)
    assert strays.members(private_stack.settings) == []
    private_stack.lakehouse("up", "--only", "postgres")
    assert private_stack.healthy()


def test_down_leaves_no_process_and_no_socket(private_stack) -> None:
    private_stack.lakehouse("up", "--only", "postgres")
    members = strays.members(private_stack.settings)
    private_stack.lakehouse("down")
    assert [process for process in members if process.is_running()] == []
    assert list((private_stack.folder / ".lakehouse" / "run").glob("*.sock")) == []


def test_up_that_stays_takes_the_stack_down_when_it_is_told_to_end(private_stack) -> None:
    command = [LAKEHOUSE, "up", "--only", "postgres", "--stay"]
    with subprocess.Popen(command, env={**os.environ, **private_stack.environment}) as staying:
        eventually(lambda: "postgres" in private_stack.healthy_services(), 120, "PostgreSQL is up")
        staying.terminate()
        assert staying.wait(60) == 0
    assert strays.members(private_stack.settings) == []


def test_reset_forgets_the_data_and_keeps_the_secrets(private_stack) -> None:
    private_stack.lakehouse("up", "--only", "postgres")
    secrets = (private_stack.folder / ".env").read_text()
    private_stack.lakehouse("reset", "--yes")
    assert not (private_stack.folder / ".lakehouse").exists()
    assert (private_stack.folder / ".env").read_text() == secrets
