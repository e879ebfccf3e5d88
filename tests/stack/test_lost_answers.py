"""Services that fail around a commit, on the real stack: whatever the answer was, the batch is in main once or not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import date
from threading import Thread, Timer
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse import steps
from lakehouse.catalog import CatalogUnreachable, catalog_of
from lakehouse.jobs import taken_over
from lakehouse.ledger import leases
from lakehouse.plan import Attempt
from lakehouse.publish import publish
from lakehouse.sample import DIRT, Recipe
from lakehouse.settings import settings
from lakehouse.stack.supervision import Supervisor
from spark_jobs.__main__ import run
from spark_jobs.session import connect
from tests.oracle import Result
from tests.stack import answers
from tests.stack.harness import Stack, eventually
from tests.stack.proxy import DATA, Proxy, proxied
from tests.stack.shop import RunJob, Shop, in_session, interval

DAY = date(2026, 1, 1)
RECIPE = Recipe.of(0.05, 3, DIRT)
AWAY_SECONDS = 30


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


def delivered(shop: Shop, layer: str, spark: SparkSession) -> tuple[str, Result]:
    """A day that is to be written in this layer; what it is made from is there. Its dataset, and what must become."""
    expected = shop.deliver([DAY], RECIPE)
    if layer == "bronze":
        return shop.bronze, expected
    shop.run(shop.bronze, DAY, in_session(spark))
    return shop.silver, expected


def audited(shop: Shop, dataset: str, attempt: Attempt, job: RunJob) -> steps.Handover:
    """The day's batch, ready to be published; the lease is held."""
    contract = shop.contract(dataset)
    steps.take_lease(dataset, attempt)
    written = steps.write(contract, interval(DAY), attempt, job)
    assert written is not None
    return steps.audit(contract, written, attempt, job)


@pytest.mark.parametrize(
    ("layer", "how"), [*(("bronze", how) for how in ("dropped", 500, 502, 503, 504)), ("silver", "dropped")]
)
def test_a_publish_whose_answer_is_lost_is_found_to_have_succeeded(layer, how, shop, spark, stack, monkeypatch):
    dataset, expected = delivered(shop, layer, spark)
    attempt, job, own = Attempt(f"run-{uuid4().hex}", 1), in_session(spark), dataset.partition(".")[2]
    ready = audited(shop, dataset, attempt, job)
    with proxied(stack.catalog_uri, b'"set-snapshot-ref"', how, own) as proxy, catalog_behind(proxy, monkeypatch):
        done = steps.make_public(shop.contract(dataset), interval(DAY), ready, attempt, job)
        assert proxy.struck.is_set()
    leases.release(dataset, attempt.run)
    assert done is not None
    assert done.own == ready.own
    answers.whole(shop, dataset, expected)
    assert shop.run(dataset, DAY, job) is None


@pytest.mark.parametrize(
    ("layer", "how"),
    [
        *(("bronze", "dropped"), ("bronze", 503), ("silver", "dropped")),
        *(pytest.param("bronze", how, marks=pytest.mark.full) for how in (500, 502, 504)),
        pytest.param("silver", 503, marks=pytest.mark.full),
    ],
)
def test_a_write_whose_commit_to_the_branch_got_no_answer_is_tried_again_and_converges(layer, how, shop, spark, stack):
    dataset, expected = delivered(shop, layer, spark)
    run = f"run-{uuid4().hex}"
    session = connect(str(uuid4()))
    with proxied(stack.catalog_uri, DATA, how, dataset.partition(".")[2]) as proxy:
        session.conf.set("spark.sql.catalog.lake.uri", proxy.uri)
        # Iceberg may find out by itself that the commit succeeded, or fail the job: what counts is what is left.
        with suppress(Exception):
            shop.run(dataset, DAY, in_session(session), Attempt(run, 1))
        assert proxy.struck.is_set()
    session.stop()
    shop.run(dataset, DAY, in_session(spark), Attempt(run, 2))
    answers.whole(shop, dataset, expected)
    assert shop.run(dataset, DAY, in_session(spark)) is None


@pytest.mark.parametrize("layer", ["bronze", "silver"])
def test_a_catalog_restarted_between_write_and_publish_loses_nothing(layer, running, shop, spark):
    dataset, expected = delivered(shop, layer, spark)
    contract, attempt, job = shop.contract(dataset), Attempt(f"run-{uuid4().hex}", 1), in_session(spark)
    ready = audited(shop, dataset, attempt, job)
    pid = running.pid("catalog")
    os.kill(pid, signal.SIGKILL)
    with suppress(CatalogUnreachable):  # unless it was back in time
        steps.make_public(contract, interval(DAY), ready, attempt, job)
    eventually(lambda: running.pid("catalog") not in (0, pid) and running.healthy(), 120, "the catalog is back")
    steps.make_public(contract, interval(DAY), ready, Attempt(attempt.run, 2), job)
    leases.release(dataset, attempt.run)
    answers.whole(shop, dataset, expected)
    assert shop.run(dataset, DAY, job) is None


class Away:
    """An object store that can be stopped once, and is back half a minute later."""

    def __init__(self, running: Stack) -> None:
        self._running, self._supervisor = running, Supervisor(running.settings)
        self._back = Timer(AWAY_SECONDS, lambda: self._supervisor.start("minio"))

    def begin(self) -> None:
        if self._back.ident is None:
            self._supervisor.stop("minio")
            self._back.start()

    def end(self) -> None:
        assert self._back.ident is not None, "the run never came to that moment"
        self._back.join()
        eventually(self._running.healthy, 120, "the store is back")


def while_it_reads(away: Away, session: SparkSession) -> RunJob:
    """Runs jobs, each of which has its document when the store goes away, and nothing else."""

    def run_without_store(job: Any) -> None:
        taken = taken_over(job.key)
        away.begin()
        run(session, taken)

    return run_without_store


@pytest.mark.parametrize(
    ("layer", "moment"),
    [
        ("silver", "commits"),
        *(
            pytest.param(layer, moment, marks=pytest.mark.full)
            for layer in ("bronze", "silver")
            for moment in ("reads", "commits", "publishes")
            if (layer, moment) != ("silver", "commits")
        ),
    ],
)
def test_an_object_store_that_is_away_for_half_a_minute_while_a_run_works_with_it_loses_nothing(
    layer, moment, running, shop, spark, stack, monkeypatch
):
    dataset, expected = delivered(shop, layer, spark)
    name, away, session = f"run-{uuid4().hex}", Away(running), connect(str(uuid4()))
    job = while_it_reads(away, session) if moment == "reads" else in_session(session)
    with monkeypatch.context() as patch, ExitStack() as opened:
        if moment == "publishes":
            patch.setattr(steps, "publish", lambda *given, **named: (away.begin(), publish(*given, **named)))
        if moment == "commits":
            proxy = opened.enter_context(proxied(stack.catalog_uri, DATA, "held", dataset.partition(".")[2]))
            session.conf.set("spark.sql.catalog.lake.uri", proxy.uri)
            Thread(target=lambda: (proxy.struck.wait(), away.begin(), proxy.released.set()), daemon=True).start()
        with suppress(Exception):  # what counts is what is left
            shop.run(dataset, DAY, job, Attempt(name, 1))
    away.end()
    session.stop()
    shop.run(dataset, DAY, in_session(spark), Attempt(name, 2))
    answers.whole(shop, dataset, expected)
    assert shop.run(dataset, DAY, in_session(spark)) is None
