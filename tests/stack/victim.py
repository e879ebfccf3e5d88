"""A run of one interval in a process of its own, which stops at a cut until it is killed or told to go on.

    python -m tests.stack.victim SPEC

At the cut it prints a line and waits for one. Some cuts lie inside a commit: there the catalog's proxy stops it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

from lakehouse import steps
from lakehouse.naming import table_sql
from lakehouse.plan import Attempt
from spark_jobs import tables
from tests.stack.shop import Shop, client_of, in_session

AT_THE_CUT = "at the cut"
# Where the environment says so, victims write past their branches: a guard that is switched off.
PAST_BRANCHES = "LAKEHOUSE_TEST_PAST_BRANCHES"


def die_while_it_runs(job_document: Any) -> None:
    """Leaves a client behind that goes on writing, as a killed task does."""
    subprocess.Popen(client_of(job_document.key), start_new_session=True)
    os.kill(os.getpid(), signal.SIGKILL)


def pausing(then: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after a pause."""

    def paused(*arguments: Any, **named: Any) -> Any:
        print(AT_THE_CUT, flush=True)
        sys.stdin.readline()
        return then(*arguments, **named)

    return paused


def main(spec: dict[str, Any]) -> None:
    from spark_jobs.session import connect

    cut = spec["cut"]
    if PAST_BRANCHES in os.environ:
        tables.Branch._target = lambda self: table_sql(self.table)  # type: ignore[method-assign]
    if cut == "left_behind":
        run = die_while_it_runs
    else:
        session = connect(str(uuid4()))
        if spec.get("catalog_of_spark"):
            session.conf.set("spark.sql.catalog.lake.uri", spec["catalog_of_spark"])
        run = in_session(session)
    if cut == "before_write":
        run = pausing(run)
    if cut == "after_write":
        steps.audit = pausing(steps.audit)
    if cut == "before_publish":
        steps.publish = pausing(steps.publish)
    if cut == "after_publish":
        steps.batches.settle = pausing(steps.batches.settle)
    shop = Shop(Path(spec["folder"]), spec["suffix"])
    shop.run(spec["dataset"], date.fromisoformat(spec["day"]), run, Attempt(spec["run"], spec.get("number", 1)))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
