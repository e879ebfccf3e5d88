"""Maintenance that is killed, or gets no answer, at each of its steps: no row is lost, and the next try finishes.

What was killed may leave work behind that goes on; it is let go after the next try, and must change nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import LakehouseError
from lakehouse.ledger import leases
from lakehouse.ledger import maintenance as log
from lakehouse.maintenance.reachable import check, listed
from lakehouse.naming import versions_of
from spark_jobs.session import connect
from tests.stack.harness import eventually
from tests.stack.proxy import proxied
from tests.stack.shop import client_of, in_session
from tests.stack.tables import loaded
from tests.stack.worn import DAYS, UPDATES, Worn, keep, key_in, needed, planned, put_aged

pytestmark = pytest.mark.timeout(900)
COMMITS = ("rewrite_data_files", "rewrite_manifests", "expire_snapshots")
SWEEP = "remove_orphan_files"
# Of each fault the first operation is tried by every test run, the others by the long ones.
EACH = [COMMITS[0], *(pytest.param(one, marks=pytest.mark.full) for one in (*COMMITS[1:], SWEEP))]


@pytest.fixture
def session(stack) -> Iterator[Callable[..., SparkSession]]:
    """Makes sessions on the Connect server as it is then; `anew`: those before are of one that was killed."""
    made: list[SparkSession] = []

    def end() -> None:
        for one in made:
            with suppress(Exception):
                one.stop()

    def open_one(*, anew: bool = False) -> SparkSession:
        if anew:  # Spark asks a process's first session what a time is, whichever one it is used with
            end()
        made.append(connect(str(uuid4())))
        return made[-1]

    yield open_one
    end()


@pytest.fixture
def worn(session) -> Iterator[Worn]:
    found, spark = Worn.made(session()), session()
    found.wear(spark, files=4)
    found.delete(spark, range(15))
    put_aged(key_in(found, "old.parquet"), 10)
    yield found
    found.drop()


def finished(worn: Worn, operation: str, run: Callable[[Any], None]) -> None:
    """The next try does what is left, and the table is whole."""
    contract, now = needed(worn, operation)
    keep(contract, run, operation, now=now)
    whole(worn)
    assert operation not in {step.operation for step in planned(contract, now).steps}


def whole(worn: Worn) -> None:
    worn.holds_its_rows()
    assert check(worn.name, loaded(worn.name)) > 0
    assert leases.holder(worn.name) is None


@pytest.mark.parametrize("operation", COMMITS)
@pytest.mark.parametrize("fault", ["dropped", pytest.param(503, marks=pytest.mark.full)])
def test_a_commit_whose_answer_is_lost_leaves_a_whole_table(operation, fault, worn, session, stack):
    contract, now = needed(worn, operation)
    spark = session()
    with proxied(stack.catalog_uri, UPDATES[operation], fault) as proxy:
        spark.conf.set("spark.sql.catalog.lake.uri", proxy.uri)
        # Iceberg may find out by itself that the commit succeeded, or fail the job: what counts is what is left.
        with suppress(Exception):
            keep(contract, in_session(spark), operation, now=now)
        assert proxy.struck.is_set()
    whole(worn)
    finished(worn, operation, in_session(session()))


@pytest.mark.parametrize("operation", COMMITS)
def test_a_job_that_is_killed_before_its_commit_arrives_changes_nothing_when_it_arrives(
    operation, worn, session, stack
):
    """The commit is on its way while the next try is done; then it is let go."""
    contract, now = needed(worn, operation)
    with proxied(stack.catalog_uri, UPDATES[operation], "held") as proxy:
        run = killed_when(proxy.struck.is_set, session(), proxy.uri)
        with pytest.raises(LakehouseError, match="failed: Killed"):
            keep(contract, run, operation, now=now)
        whole(worn)
        assert log.recent(worn.name, 1)[0]["outcome"].startswith("failed")
        finished(worn, operation, in_session(session()))
    whole(worn)


class Killed(Exception):
    """The job's session was ended from outside."""


def killed_when(condition: Callable[[], bool], spark: SparkSession, catalog_uri: str) -> Callable[[Any], None]:
    """Runs the job on a thread, and ends its session when the condition holds."""
    spark.conf.set("spark.sql.catalog.lake.uri", catalog_uri)

    def run(job: Any) -> None:
        def work() -> None:
            with suppress(Exception):
                in_session(spark)(job)

        thread = Thread(target=work, daemon=True)
        thread.start()
        eventually(condition, 120, "the commit is on its way")
        with suppress(Exception):
            spark.interruptAll()
        raise Killed

    return run


def test_a_client_that_is_killed_outright_leaves_a_whole_table(worn, session):
    """It dies while the server writes: a file has come that no version names yet, or only the newest."""
    location = loaded(worn.name).location()
    before = set(data_files(location))

    def run(job: Any) -> None:
        client = subprocess.Popen(client_of(job.key), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: set(data_files(location)) - before or client.poll() is not None, 120, "the job writes")
        client.kill()
        assert client.wait() == -signal.SIGKILL, "it was done before it could be killed"
        raise Killed

    contract, now = needed(worn, "rewrite_data_files")
    with pytest.raises(LakehouseError, match="failed: Killed"):
        keep(contract, run, "rewrite_data_files", now=now)
    whole(worn)
    finished(worn, "rewrite_data_files", in_session(session()))


def data_files(location: str) -> list[str]:
    return [path for path in listed(location) if path.endswith(".parquet")]


@pytest.mark.parametrize("operation", EACH)
def test_a_connect_server_that_is_killed_leaves_a_whole_table(operation, worn, session, stack, running):
    """While it commits; or, where nothing is committed, while it removes files."""
    contract, now = needed(worn, operation)
    pid = running.pid("spark")
    with proxied(stack.catalog_uri, UPDATES.get(operation, b""), "held") as proxy:
        held = killed_when(proxy.struck.is_set, session(), proxy.uri)
        spark = session()

        def run(job: Any) -> None:
            if job.call.procedure != SWEEP:
                held(job)
            elif job.call.dry_run:
                in_session(spark)(job)
            else:
                Thread(target=lambda: suppressed(in_session(spark), job), daemon=True).start()
                raise Killed

        with pytest.raises(LakehouseError, match="failed: Killed"):
            keep(contract, run, operation, now=now)
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: running.pid("spark") not in (0, pid) and running.healthy(), 180, "Spark is back")
    whole(worn)
    finished(worn, operation, in_session(session(anew=True)))


def suppressed(work: Callable[[Any], None], job: Any) -> None:
    with suppress(Exception):
        work(job)


@pytest.mark.parametrize("operation", EACH)
def test_a_maintenance_process_that_is_killed_gives_way_to_the_next(operation, worn, session):
    """The row that it began stays, and says no more; its lease ends with the run that takes over."""
    done = subprocess.run([sys.executable, "-c", KILLED, worn.name, operation], check=False)
    assert done.returncode == -signal.SIGKILL
    assert log.recent(worn.name, 1)[0]["outcome"] == "begun"
    for right in (worn.name, versions_of(worn.name)):  # as their end does, after ten minutes
        held = leases.holder(right)
        if held:
            leases.release(right, held.owner)
        assert held or right != worn.name
    finished(worn, operation, in_session(session()))


# Maintenance that dies when its Spark job is to begin; a list of files is made before, and without the lease.
KILLED = """
import os, signal, sys
from uuid import uuid4
from spark_jobs.session import connect
from tests.stack.shop import in_session
from tests.stack.worn import Worn, keep, needed

def run(job):
    if not job.call.dry_run:
        os.kill(os.getpid(), signal.SIGKILL)
    in_session(connect(str(uuid4())))(job)

contract, now = needed(Worn(sys.argv[1]), sys.argv[2])
keep(contract, run, sys.argv[2], now=now)
"""


def test_a_writer_that_ignores_the_lease_loses_nothing_and_is_not_taken_for_lost_rows(worn, session):
    spark, other = session(), session()

    def run(job: Any) -> None:
        worn.write(other, DAYS[0], range(500_000, 500_020))
        in_session(spark)(job)

    contract, now = needed(worn, "rewrite_data_files")
    (line, *_) = keep(contract, run, "rewrite_data_files", now=now)
    assert "rewrite_data_files" in line
    whole(worn)


def test_a_job_that_fails_keeps_no_other_step_from_its_turn(worn, session):
    """It was at work, and has committed nothing: the others do theirs, and the turn fails in the end."""
    spark = session()

    def run(job: Any) -> None:
        if job.call.procedure == "rewrite_data_files":
            raise Killed
        in_session(spark)(job)

    with pytest.raises(LakehouseError, match=f"rewrite_data_files of {worn.name} failed: Killed"):
        keep(worn.contract(), run)
    outcomes = {row["operation"]: row["outcome"] for row in log.recent(worn.name, 50)}
    assert outcomes.pop("rewrite_data_files") == "failed: Killed"
    assert set(outcomes) == {"set_properties", "rewrite_manifests", SWEEP}
    assert set(outcomes.values()) == {log.DONE}
    whole(worn)
    finished(worn, "rewrite_data_files", in_session(session()))
