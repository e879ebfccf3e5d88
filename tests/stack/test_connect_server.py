"""One Connect server serves many jobs: what each session takes, it gives back."""

from __future__ import annotations

from random import randrange
from uuid import uuid4

import httpx
import pytest

from lakehouse.settings import Settings
from spark_jobs.keeping import keeping, kept
from spark_jobs.session import connect
from tests.stack import tables
from tests.stack.jvm import Jvm


def jobs(table: str, count: int) -> None:
    """Each in a session of its own, as tasks have them: a read, a frame kept, a temporary view, a released session."""
    for _ in range(count):
        session = connect(str(uuid4()))
        with keeping():
            rows = kept(session.read.table(f"lake.{table}"))
            rows.createOrReplaceTempView("seen")
            assert session.sql("SELECT count(*) FROM seen").collect()[0][0] == 3
        session.stop()


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_three_hundred_jobs_leave_heap_and_threads_bounded(running, name):
    server = Jvm(running.pid("spark"))
    tables.add(name, [1, 2, 3])
    jobs(name, 50)
    heap_before, threads_before = server.heap(), server.threads()
    jobs(name, 300)
    heap, threads = server.heap(), server.threads()
    print(f"heap {heap_before:.0f} → {heap:.0f} MiB, threads {threads_before} → {threads} over 300 jobs")
    assert heap < heap_before + 100
    assert threads < threads_before + 50


def compiled(stack: Settings) -> int:
    """How many classes the server has generated and compiled."""
    metrics = httpx.get(f"http://127.0.0.1:{stack.spark_ui_port}/metrics/json/").json()["histograms"]
    (count,) = (found["count"] for name, found in metrics.items() if name.endswith(".CodeGenerator.compilationTime"))
    return count


def test_a_job_finds_compiled_what_the_job_before_it_generated(stack, name):
    tables.add(name, [1, 2, 3])
    new_to_the_server = f"SELECT sum(id * {randrange(10**6, 10**9)}) FROM lake.{name}"
    counts = [compiled(stack)]
    for _ in range(2):
        session = connect(str(uuid4()))
        session.sql(new_to_the_server).collect()
        session.stop()
        counts.append(compiled(stack))
    before, first, second = counts
    assert first > before
    assert second == first
