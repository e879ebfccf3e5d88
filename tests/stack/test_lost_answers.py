"""Services that fail around a commit, on the real stack: whatever the answer was, the batch is in main once or not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from uuid import uuid4

import pytest

from lakehouse import steps
from lakehouse.batch import PUBLISHED
from lakehouse.catalog import CatalogUnreachable, catalog_of
from lakehouse.ledger import batches, leases
from lakehouse.plan import Attempt
from lakehouse.query import run_sql
from lakehouse.sample import Recipe
from lakehouse.settings import settings
from lakehouse.stack.supervision import Supervisor
from spark_jobs.session import connect
from tests.stack import answers
from tests.stack.harness import eventually
from tests.stack.proxy import DATA, Proxy, proxied
from tests.stack.shop import Shop, in_session, interval

DAY = date(2026, 1, 1)
RECIPE = Recipe.of(0.05, 3, None)


@contextmanager
def catalog_behind(proxy: Proxy, monkeypatch) -> Iterator[None]:
    """This process asks the catalog through the proxy."""
    with monkeypatch.context() as patch:
        patch.setenv("LAKEHOUSE_CATALOG_URI", proxy.uri)
        settings.cache_clear()
        catalog_of.cache_clear()
        try:
            yield
        finally:
            patch.undo()
            settings.cache_clear()
            catalog_of.cache_clear()


def whole(shop: Shop, expected: int) -> None:
    """One batch, each record once, nothing leased."""
    _, rows = run_sql(f"SELECT count(*), count(DISTINCT (_source_file, _source_offset)) FROM {shop.bronze}")
    assert rows == [(expected, expected)]
    assert [b.state for b in batches.recent(shop.bronze)] == [PUBLISHED]
    assert leases.holder(shop.bronze) is None


@pytest.mark.parametrize("how", ["dropped", 500, 502, 503, 504])
def test_a_publish_whose_answer_is_lost_is_found_to_have_succeeded(how, shop, spark, stack, monkeypatch):
    expected = shop.deliver([DAY], RECIPE).bronze[DAY]
    contract, attempt, job = shop.contract(shop.bronze), Attempt(f"run-{uuid4().hex}", 1), in_session(spark)
    steps.take_lease(shop.bronze, attempt)
    written = steps.write(contract, interval(DAY), attempt, job)
    assert written is not None
    audited = steps.audit(contract, written, attempt, job)
    with proxied(stack.catalog_uri, b'"set-snapshot-ref"', how) as proxy, catalog_behind(proxy, monkeypatch):
        done = steps.make_public(contract, interval(DAY), audited, attempt, job)
        assert proxy.struck.is_set()
    leases.release(shop.bronze, attempt.run)
    assert done is not None
    assert done.own == written.own
    whole(shop, expected)


@pytest.mark.parametrize("how", ["dropped", 503])
def test_a_write_whose_commit_to_the_branch_got_no_answer_is_tried_again_and_converges(how, shop, spark, stack):
    expected = shop.deliver([DAY], RECIPE).bronze[DAY]
    run = f"run-{uuid4().hex}"
    session = connect(str(uuid4()))
    with proxied(stack.catalog_uri, DATA, how) as proxy:
        session.conf.set("spark.sql.catalog.lake.uri", proxy.uri)
        # Iceberg may find out by itself that the commit succeeded, or fail the job: what counts is what is left.
        with suppress(Exception):
            shop.run(shop.bronze, DAY, in_session(session), Attempt(run, 1))
        assert proxy.struck.is_set()
    session.stop()
    shop.run(shop.bronze, DAY, in_session(spark), Attempt(run, 2))
    whole(shop, expected)


def test_a_catalog_restarted_between_write_and_publish_loses_nothing(running, shop, spark):
    expected = shop.deliver([DAY], RECIPE).bronze[DAY]
    contract, attempt, job = shop.contract(shop.bronze), Attempt(f"run-{uuid4().hex}", 1), in_session(spark)
    steps.take_lease(shop.bronze, attempt)
    written = steps.write(contract, interval(DAY), attempt, job)
    assert written is not None
    audited = steps.audit(contract, written, attempt, job)
    pid = running.pid("catalog")
    os.kill(pid, signal.SIGKILL)
    with suppress(CatalogUnreachable):  # unless it was back in time
        steps.make_public(contract, interval(DAY), audited, attempt, job)
    eventually(lambda: running.pid("catalog") not in (0, pid) and running.healthy(), 120, "the catalog is back")
    steps.make_public(contract, interval(DAY), audited, Attempt(attempt.run, 2), job)
    leases.release(shop.bronze, attempt.run)
    whole(shop, expected)


def test_an_object_store_that_is_away_in_the_middle_of_a_run_loses_nothing(running, shop, spark):
    expected = shop.deliver([DAY], RECIPE).bronze[DAY]
    run, supervisor = f"run-{uuid4().hex}", Supervisor(running.settings)
    inside = in_session(spark)

    def job(document: object) -> None:
        supervisor.stop("minio")
        inside(document)

    with suppress(Exception):  # what counts is what is left
        shop.run(shop.bronze, DAY, job, Attempt(run, 1))
    supervisor.start("minio")
    eventually(running.healthy, 120, "the store is back")
    shop.run(shop.bronze, DAY, inside, Attempt(run, 2))
    whole(shop, expected)
    assert answers.bronze_count(shop, DAY) == expected
