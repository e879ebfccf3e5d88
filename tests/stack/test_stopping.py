"""A task that is killed, cleared or out of time takes its work on the Spark server with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from uuid import uuid4

import httpx
import pytest

from lakehouse import jobs, steps
from lakehouse.plan import Attempt, plan
from lakehouse.sample import Recipe
from lakehouse.settings import ROOT, Settings
from tests.stack.harness import eventually
from tests.stack.shop import Shop, client_of, in_session, interval

DAY = date(2026, 1, 1)
# One task: it leaves Spark a core to answer with.
ENDLESS = "CROSS JOIN range(0, 1000000000000, 1, 1) AS r WHERE hash(r.id) = 7 AND "
ANSWER_SECONDS = 60


@pytest.fixture
def endless(stack, spark, tmp_path) -> Iterator[str]:
    """The key of a job document whose query does not end."""
    shop = Shop.open(tmp_path)
    shop.deliver([DAY], Recipe.of(0.05, 3, None))
    for dataset in (shop.bronze, shop.silver):
        shop.run(dataset, DAY, in_session(spark))
    (query,) = (shop.folder / "gold").glob("*.sql")
    query.write_text(query.read_text().replace("WHERE ", ENDLESS))
    attempt = Attempt(f"run-{uuid4().hex}", 1)
    steps.take_lease(shop.gold, attempt)
    planned = plan(shop.contract(shop.gold), interval(DAY), attempt)
    assert planned is not None
    assert planned.job is not None
    jobs.hand_over(planned.job)
    yield planned.job.key
    shop.close()


def tasks_of(stack: Settings) -> int:
    """How many tasks Spark's executors work on now."""
    url = f"http://127.0.0.1:{stack.spark_ui_port}/api/v1/applications"
    with httpx.Client(timeout=ANSWER_SECONDS) as spark_ui:
        (application,) = spark_ui.get(url).json()
        executors = spark_ui.get(f"{url}/{application['id']}/executors").json()
    return sum(one["activeTasks"] for one in executors)


@contextmanager
def task_of(key: str) -> Iterator[tuple[int, int]]:
    """A task that starts the job's client and waits for it: the pids of both. None of them is left behind."""
    code = f"import subprocess; p = subprocess.Popen({client_of(key)!r}); print(p.pid, flush=True); p.wait()"
    task = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with task:
        assert task.stdout is not None
        try:
            yield task.pid, int(task.stdout.readline())
        finally:
            with suppress(ProcessLookupError):
                os.killpg(task.pid, signal.SIGKILL)


@pytest.mark.parametrize("how", ["the job is told to end", "the task is killed outright"])
def test_a_task_that_ends_before_its_job_takes_the_job_with_it(how, stack, endless):
    with task_of(endless) as (task, client):
        eventually(lambda: tasks_of(stack) > 0, 120, "the job works")
        begun = time.monotonic()
        os.kill(*((client, signal.SIGTERM) if how == "the job is told to end" else (task, signal.SIGKILL)))
        eventually(lambda: tasks_of(stack) == 0, 60, "nothing of it works any more")
        print(f"{how}: no work left after {time.monotonic() - begun:.1f} s")
