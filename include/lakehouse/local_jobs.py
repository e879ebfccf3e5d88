"""Runs a Spark job for a command that somebody typed: in a process of its own, as Airflow's tasks do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lakehouse.errors import LakehouseError
from lakehouse.identities import acting
from lakehouse.settings import ROOT, environment, settings


class JobFailed(LakehouseError):
    """The job said what went wrong, in one sentence."""


def run_job(job: Any) -> None:
    """Run the job, and raise its own last sentence if it fails."""
    _run(job, {})


def run_maintenance(job: Any) -> None:
    """The same, on the Spark that maintenance has for itself, if there is one."""
    own = settings().maintenance_spark_remote
    _run(job, {"LAKEHOUSE_SPARK_REMOTE": own} if own else {})


def _run(job: Any, changed: dict[str, str]) -> None:
    command, variables = _command(job.key), {**environment(), **changed, "LAKEHOUSE_ROLE": acting()}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=variables
    )
    if done.returncode:
        raise JobFailed(f"the Spark job failed: {sentence(done.stdout.splitlines(), done.returncode)}")


def client(key: str) -> list[str]:
    """The command of a job's client of the Connect server."""
    return [sys.executable, "-m", "spark_jobs", "--job", key]


def sentence(lines: Iterable[str], code: int) -> str:
    """What a job that failed said last: of an error if it named one, for Spark may go on talking."""
    said = [line.strip() for line in lines if line.strip()] or [f"it ended with code {code} and said nothing"]
    told = [line for line in said if line.startswith("error: ")] or said
    return told[-1].removeprefix("error: ")


def _command(key: str) -> list[str]:
    given = settings()
    if given.spark_mode == "connect":
        return client(key)
    submit = str(Path(sys.executable).parent / "spark-submit")
    where = ["--master", given.spark_master, "--deploy-mode", given.spark_deploy_mode]
    program = str(ROOT / "spark_jobs" / "__main__.py")
    return [submit, *where, "--properties-file", str(given.spark_submit_conf(acting())), program, "--job", key]
