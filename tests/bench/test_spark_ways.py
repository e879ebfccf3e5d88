"""The same job by cold spark-submit and by warm Connect, and what a run spends outside Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any
from uuid import uuid4

import pytest

from lakehouse import steps
from lakehouse.ledger import leases
from lakehouse.plan import Attempt
from lakehouse.sample import Recipe
from lakehouse.settings import Settings, settings
from lakehouse.stack.airflow_env import airflow_environment
from lakehouse.stack.spark import script
from tests.stack.shop import RunJob, Shop, interval

DAY = date(2026, 1, 1)
SCALE = 1.0
ROUNDS = 3
LAYERS = ("bronze", "silver", "gold")
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def as_a_task(stack: Settings) -> Iterator[None]:
    """The environment that Airflow gives a task: the Spark provider's connections, and spark-submit on the path."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in airflow_environment(settings()).items():
            patch.setenv(name, value)
        patch.setenv("PATH", str(script("spark-submit").parent), prepend=":")
        patch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)  # left by sessions of other benches
        yield


@pytest.fixture(scope="module")
def shop(as_a_task, tmp_path_factory) -> Iterator[Shop]:
    opened = Shop.open(tmp_path_factory.mktemp("contracts"))
    opened.deliver([DAY], Recipe.of(SCALE, 11, None))
    yield opened
    opened.close()


def timed(way: Callable[[], Any], takes: list[float]) -> RunJob:
    """Runs a job in a process of its own, as a task does, and keeps how long that took."""

    def run(job: Any) -> None:
        begun = time.perf_counter()
        way().run(job.key)
        takes.append(time.perf_counter() - begun)

    return run


@contextmanager
def leased(dataset: str) -> Iterator[str]:
    owner = f"bench/{uuid4().hex}"
    assert leases.acquire(dataset, owner, owner)
    try:
        yield owner
    finally:
        leases.release(dataset, owner)


def test_a_run_of_three_layers_and_what_of_it_is_not_spark_work(report, shop):
    from lakehouse_airflow.runner import ConnectRunner

    whole = 0.0
    takes: list[float] = []
    for layer, dataset in zip(LAYERS, shop.datasets, strict=True):
        spent: list[float] = []
        begun = time.perf_counter()
        shop.run(dataset, DAY, timed(ConnectRunner, spent))
        wall = time.perf_counter() - begun
        report.add(f"{layer}: write, audit and publish, by Connect", [wall])
        whole, takes = whole + wall, takes + spent
    report.add("share of it outside Spark jobs, Airflow's own not counted", [(whole - sum(takes)) / whole * 100], "%")


def test_the_same_job_by_cold_spark_submit_and_by_warm_connect(report, shop):
    """Cleans one interval again and again, each time to a branch that nobody publishes."""
    from lakehouse_airflow.runner import ConnectRunner, SubmitRunner

    takes: dict[str, list[float]] = {"warm-up": [], "connect": [], "submit": []}
    turns = [("warm-up", ConnectRunner), *[("submit", SubmitRunner), ("connect", ConnectRunner)] * ROUNDS]
    # Another contract than the published batch's: else there would be nothing to write.
    contract = shop.contract(shop.silver).model_copy(update={"late_data": None})
    with leased(shop.silver) as owner:
        for number, (name, way) in enumerate(turns):
            written = steps.write(contract, interval(DAY), Attempt(f"{owner}/{number}", 1), timed(way, takes[name]))
            assert written is not None
            assert written.batch.counts["rows_in"] > 0
    report.add("cleaning a day by cold spark-submit", takes["submit"])
    report.add("the same by warm Connect", takes["connect"])
    report.ratio("cold spark-submit / warm Connect", takes["submit"], takes["connect"], at_least=4)
