"""Runs a Spark job for a command that somebody typed: in a process of its own, as Airflow's tasks do."""

from __future__ import annotations

import subprocess
import sys
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
        lines = [line for line in done.stdout.splitlines() if line.strip()] or [f"it ended with {done.returncode}"]
        told = [line for line in lines if line.startswith("error: ")] or lines
        raise JobFailed(f"the Spark job failed: {told[-1].removeprefix('error: ')}")


def _command(key: str) -> list[str]:
    given = settings()
    if given.spark_mode == "connect":
        return [sys.executable, "-m", "spark_jobs", "--job", key]
    submit = str(Path(sys.executable).parent / "spark-submit")
    where = ["--master", given.spark_master, "--deploy-mode", given.spark_deploy_mode]
    program = str(ROOT / "spark_jobs" / "__main__.py")
    return [submit, *where, "--properties-file", str(given.spark_submit_conf(acting())), program, "--job", key]
