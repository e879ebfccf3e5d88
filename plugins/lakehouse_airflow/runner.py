"""Runs one Spark job for a task: by Spark Connect or by spark-submit, over the Spark provider's connections."""

from __future__ import annotations

import logging
import subprocess
from collections import deque
from pathlib import Path
from typing import Any, Protocol

from airflow.sdk.exceptions import AirflowException

from lakehouse.identities import acting
from lakehouse.local_jobs import client, sentence
from lakehouse.settings import ROOT, environment, settings

log = logging.getLogger(__name__)
CONNECT_CONNECTION = "spark_connect"
SUBMIT_CONNECTION = "spark_submit"
APPLICATION = ROOT / "spark_jobs" / "__main__.py"
# Airflow gives a task five seconds between SIGTERM and SIGKILL.
SECONDS_TO_STOP = 4.0
# Among so many the one that says what went wrong is looked for.
LAST_LINES = 100


class JobFailed(AirflowException):
    """The job said what went wrong, in one sentence."""


class Runner(Protocol):
    def run(self, key: str) -> None: ...
    def kill(self) -> None: ...


def runner(mode: str | None = None) -> Runner:
    """The way to Spark that is asked for, else the setting's."""
    return SubmitRunner() if (mode or settings().spark_mode) == "submit" else ConnectRunner()


class ConnectRunner:
    """A client process per job against the warm Connect server."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def run(self, key: str) -> None:
        command = client(key)
        log.info("running %s", " ".join(["python", *command[1:]]))
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self._environment()
        )
        last: deque[str] = deque(maxlen=LAST_LINES)
        for line in self.process.stdout or ():
            last.append(line.rstrip())
            log.info("%s", line.rstrip())
        if self.process.wait() != 0:
            raise JobFailed(sentence(last, self.process.returncode))

    def _environment(self) -> dict[str, str]:
        """The connection's address and token by environment: a command line is visible to everyone."""
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

        found = SparkConnectHook.get_connection(CONNECT_CONNECTION)
        host = str(found.host).removeprefix("sc://")
        remote = f"sc://{host}:{found.port}" + ("/;use_ssl=true" if found.extra_dejson.get("use_ssl") else "")
        return {
            **environment(),
            "LAKEHOUSE_SPARK_MODE": "connect",
            "LAKEHOUSE_SPARK_REMOTE": remote,
            "LAKEHOUSE_SPARK_TOKEN": found.password or "",
            "LAKEHOUSE_ROLE": acting().value,
        }

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                self.process.kill()


class SubmitRunner:
    """spark-submit, through the provider's hook."""

    def __init__(self) -> None:
        self.hook: Any = None

    def run(self, key: str) -> None:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        self.hook = SparkSubmitHook(
            conn_id=SUBMIT_CONNECTION,
            name=Path(key).parent.parent.name,
            application_args=["--job", key],
            properties_file=str(settings().spark_submit_conf(acting())),
            env_vars={"LAKEHOUSE_SPARK_MODE": "submit", "LAKEHOUSE_ROLE": acting().value},
        )
        try:
            self.hook.submit(str(APPLICATION))
        except AirflowException as error:
            raise JobFailed(sentence(str(error).splitlines(), 1)) from None

    def kill(self) -> None:
        if self.hook:
            self.hook.on_kill()
