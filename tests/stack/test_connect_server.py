"""One Connect server serves many jobs: what each session takes, it gives back."""

from __future__ import annotations

from uuid import uuid4

import pytest

from spark_jobs.keeping import keeping, kept
from spark_jobs.session import connect
from tests.stack import tables
from tests.stack.jvm import Jvm

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


def jobs(table: str, count: int) -> None:
    """Each in a session of its own, as tasks have them: a read, a frame kept, a temporary view, a released session."""
    for _ in range(count):
        session = connect(str(uuid4()))
        with keeping():
            rows = kept(session.read.table(f"lake.{table}"))
            rows.createOrReplaceTempView("seen")
            assert session.sql("SELECT count(*) FROM seen").collect()[0][0] == 3
        session.stop()


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
