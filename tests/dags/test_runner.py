"""How a task runs its Spark job: what others can see of it, how it fails, and how it ends when it is told to."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import SecretStr

from lakehouse.identities import acting_as
from lakehouse.roles import Role
from lakehouse.settings import Settings, settings
from lakehouse.stack.airflow_env import airflow_environment

KEY = "_jobs/silver.orders/0123456789abcdef/clean.json"
# Each stands where the job would be started, as `python -m spark_jobs` or as spark-submit.
TELLS = """
import json, os, sys
from pathlib import Path
import psutil
seen = {"command": psutil.Process().cmdline(), "environment": dict(os.environ)}
Path("seen.json").write_text(json.dumps(seen))
print("written 5 rows")
"""
FAILS = """
import sys
print("Traceback: at org.apache.spark.Something")
print("error: catalog at http://127.0.0.1:1 does not answer", flush=True)
sys.exit(1)
"""
WORKS_ON = """
import signal, sys
from pathlib import Path
def told(number, frame):
    {when_told}
signal.signal(signal.SIGTERM, told)
with open("started", "w") as pipe:
    pipe.write("yes")
while True:
    signal.pause()
"""


@pytest.fixture
def secrets(airflow_home, monkeypatch) -> dict[str, str]:
    """A value for every secret that there is, and the connections that the stack would make of them."""
    fields = [name for name, field in Settings.model_fields.items() if isinstance(field.default, SecretStr)]
    for name in fields:
        monkeypatch.setenv(f"LAKEHOUSE_{name.upper()}", f"the-{name}-nobody-may-see")
    settings.cache_clear()
    for name, value in airflow_environment(settings()).items():
        if name.startswith("AIRFLOW_CONN_"):
            monkeypatch.setenv(name, value)
    return settings().secrets()


@pytest.fixture
def job(tmp_path, monkeypatch) -> Callable[[str], Path]:
    """Puts a program where a job's would be found; returns the folder that it works in."""

    def place(source: str) -> Path:
        package = tmp_path / "spark_jobs"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(source)
        submit = tmp_path / "bin" / "spark-submit"
        submit.parent.mkdir()
        submit.write_text(f"#!{sys.executable}\n{source}")
        submit.chmod(0o700)
        monkeypatch.setenv("PATH", f"{submit.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return place


@pytest.fixture(params=["connect", "submit"])
def runner(request, secrets, monkeypatch) -> Any:
    monkeypatch.setenv("LAKEHOUSE_SPARK_MODE", request.param)
    settings.cache_clear()
    from lakehouse_airflow.runner import runner

    return runner()


def test_neither_command_line_nor_log_holds_a_secret(runner, job, secrets, caplog, capfd):
    folder = job(TELLS)
    with caplog.at_level(logging.INFO):
        runner.run(KEY)
    command = " ".join(json.loads((folder / "seen.json").read_text())["command"])
    log = caplog.text + "".join(capfd.readouterr())
    assert all(f"--job {KEY}" in told for told in (command, log))
    assert len(secrets) > 10
    assert [name for name, value in secrets.items() if value in command or value in log] == []


def test_a_connect_job_is_told_address_and_token_by_its_environment(secrets, job):
    from lakehouse_airflow.runner import ConnectRunner

    folder = job(TELLS)
    ConnectRunner().run(KEY)
    seen = json.loads((folder / "seen.json").read_text())["environment"]
    assert seen["LAKEHOUSE_SPARK_TOKEN"] == secrets["spark_token"]
    assert seen["LAKEHOUSE_SPARK_REMOTE"] == settings().spark_remote
    assert seen["LAKEHOUSE_SPARK_MODE"] == "connect"


def test_a_submitted_job_is_told_its_properties_by_a_file(secrets, job):
    from lakehouse_airflow.runner import APPLICATION, SubmitRunner

    folder = job(TELLS)
    SubmitRunner().run(KEY)
    seen = json.loads((folder / "seen.json").read_text())
    arguments = seen["command"]
    assert arguments[arguments.index("--properties-file") + 1] == str(settings().spark_submit_conf("admin"))
    assert arguments[-3:] == [str(APPLICATION), "--job", KEY]
    assert seen["environment"]["LAKEHOUSE_SPARK_MODE"] == "submit"
    assert seen["environment"]["LAKEHOUSE_ROLE"] == "admin"


def test_a_job_is_started_in_the_role_of_whoever_starts_it(secrets, job):
    from lakehouse_airflow.runner import ConnectRunner

    folder = job(TELLS)
    with acting_as(Role.INGEST):
        ConnectRunner().run(KEY)
    assert json.loads((folder / "seen.json").read_text())["environment"]["LAKEHOUSE_ROLE"] == "ingest"


def test_airflows_secrets_backend_wins_over_what_the_stack_says(secrets, job, tmp_path, monkeypatch):
    from lakehouse_airflow.runner import ConnectRunner

    told = {"conn_type": "spark_connect", "host": "spark.example.org", "port": 443, "password": "from-the-backend"}
    (tmp_path / "connections.json").write_text(json.dumps({"spark_connect": told}))
    files = {"connections_file_path": str(tmp_path / "connections.json")}
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", "airflow.secrets.local_filesystem.LocalFilesystemBackend")
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps(files))
    folder = job(TELLS)
    ConnectRunner().run(KEY)
    seen = json.loads((folder / "seen.json").read_text())["environment"]
    assert seen["LAKEHOUSE_SPARK_REMOTE"] == "sc://spark.example.org:443"
    assert seen["LAKEHOUSE_SPARK_TOKEN"] == "from-the-backend"


def test_what_the_job_prints_is_in_the_tasks_log(secrets, job, caplog):
    from lakehouse_airflow.runner import ConnectRunner

    job(TELLS)
    with caplog.at_level(logging.INFO):
        ConnectRunner().run(KEY)
    assert "written 5 rows" in caplog.text


def test_a_job_that_fails_is_told_in_its_own_last_sentence(runner, job):
    from lakehouse_airflow.runner import JobFailed

    job(FAILS)
    with pytest.raises(JobFailed) as failed:
        runner.run(KEY)
    assert str(failed.value) == "catalog at http://127.0.0.1:1 does not answer"


def test_a_job_that_fails_without_a_word_is_told_by_its_code(secrets, job):
    from lakehouse_airflow.runner import ConnectRunner, JobFailed

    job("raise SystemExit(3)")
    with pytest.raises(JobFailed, match="ended with code 3 and said nothing"):
        ConnectRunner().run(KEY)


@pytest.mark.parametrize(("when_told", "code"), [("sys.exit(7)", 7), ("pass", -signal.SIGKILL)], ids=["heeds", "deaf"])
def test_a_killed_task_ends_its_job_also_one_that_does_not_listen(secrets, job, monkeypatch, when_told, code):
    from lakehouse_airflow import runner as module

    monkeypatch.setattr(module, "SECONDS_TO_STOP", 5.0 if code > 0 else 0.1)
    os.mkfifo(job(WORKS_ON.format(when_told=when_told)) / "started")
    running, failed = module.ConnectRunner(), []

    def run() -> None:
        try:
            running.run(KEY)
        except module.JobFailed as error:
            failed.append(error)

    thread = Thread(target=run)
    thread.start()
    assert Path("started").read_text() == "yes"
    running.kill()
    thread.join(10)
    assert (running.process.returncode, len(failed)) == (code, 1)


def test_a_job_gets_less_time_to_stop_than_airflow_gives_a_task(airflow_home):
    from lakehouse_airflow.runner import SECONDS_TO_STOP

    assert SECONDS_TO_STOP < 5
