"""A run of one interval that ends itself with SIGKILL at a given cut: python -m tests.stack.victim SPEC."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

from lakehouse import steps
from lakehouse.plan import Attempt
from tests.stack.shop import Shop

CUTS = ("while_writing", "after_write", "before_commit", "after_commit")


def job(key: str) -> list[str]:
    return [sys.executable, "-m", "spark_jobs", "--job", key]


def by_client(job_document: Any) -> None:
    """Runs a job as Airflow's task does: in a client process of its own."""
    subprocess.run(job(job_document.key), check=True)


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def die_while_it_runs(job_document: Any) -> None:
    """Leaves a client behind that goes on writing, as a killed task does."""
    subprocess.Popen(job(job_document.key), start_new_session=True)
    die()


def main(spec: dict[str, str]) -> None:
    shop = Shop(Path(spec["folder"]), spec["suffix"])
    cut = spec["cut"]
    if cut == "after_write":
        steps.audit = die
    if cut == "before_commit":
        steps.publish = die
    if cut == "after_commit":
        steps.batches.settle = die
    run = die_while_it_runs if cut == "while_writing" else by_client
    shop.run(spec["dataset"], date.fromisoformat(spec["day"]), run, Attempt(spec["run"], 1))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
