"""One Connect server serves many jobs: what each session takes, it gives back."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from lakehouse.catalog import catalog
from lakehouse.stack.java import find_java
from spark_jobs.keeping import keeping, kept
from spark_jobs.session import connect
from tests.stack import tables

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


@pytest.fixture
def name(stack) -> Iterator[str]:
    made = f"bronze.many_{uuid4().hex[:8]}"
    tables.make(made)
    tables.add(made, [1, 2, 3])
    yield made
    catalog().drop_table(made)


def jcmd(pid: int, command: str) -> str:
    tool = Path(find_java().home) / "bin" / "jcmd"
    return subprocess.run([tool, str(pid), *command.split()], capture_output=True, text=True, check=True).stdout


def measured(pid: int) -> tuple[float, int]:
    """The server's heap in MiB after a collection, and its threads."""
    jcmd(pid, "GC.run")
    used = re.search(r"used (\d+)K", jcmd(pid, "GC.heap_info"))
    assert used is not None
    return int(used[1]) / 1024, jcmd(pid, "Thread.print").count("nid=")


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
    pid = running.pid("spark")
    jobs(name, 50)
    heap_before, threads_before = measured(pid)
    jobs(name, 300)
    heap, threads = measured(pid)
    print(f"heap {heap_before:.0f} → {heap:.0f} MiB, threads {threads_before} → {threads} over 300 jobs")
    assert heap < heap_before + 100
    assert threads < threads_before + 50
