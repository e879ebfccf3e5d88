"""kill -9 on the real stack, of a run and of Spark, wherever they are: main is whole, the retry converges at once.

What was killed may leave work behind that goes on: a commit on its way, a job on the server, a client without a task.
It is let go after the retry, and must change nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.plan import Attempt
from lakehouse.sample import DIRT, Recipe
from lakehouse.settings import ROOT
from spark_jobs.session import connect
from tests.stack import answers
from tests.stack.harness import eventually, kill_spark
from tests.stack.proxy import DATA, Proxy, proxied
from tests.stack.shop import in_session
from tests.stack.victim import AT_THE_CUT

# A day is whole before the next is killed: there are rows to lose, and silver's MERGE has some to meet.
FIRST, DAY = date(2026, 1, 1), date(2026, 1, 2)
RECIPE = Recipe.of(0.05, 3, DIRT)
# Where the catalog's proxy stops a run: by what the commit holds that it stops, and how; Spark's is to the own table.
HELD = {
    "after_data_files": ("spark", DATA, "held"),
    "during_commit": ("spark", DATA, "answer held"),
    "during_publish": ("task", b'"set-snapshot-ref"', "answer held"),
}
CUTS = (
    "before_write",
    "after_data_files",
    "during_commit",
    "after_write",
    "before_publish",
    "during_publish",
    "after_publish",
)
MATRIX = [(who, cut, layer) for layer in ("bronze", "silver") for who in ("task", "spark") for cut in CUTS]
# One of each kind every time, all of them in the full tests.
ALWAYS = [
    ("task", "after_data_files", "bronze"),
    ("task", "during_publish", "bronze"),
    ("task", "after_publish", "bronze"),
    ("task", "before_publish", "silver"),
    ("spark", "during_commit", "silver"),
    ("task", "after_data_files", "silver"),
]
pytestmark = pytest.mark.timeout(900)


class Jobs:
    """Runs the retry's jobs, in a session that is made when it is needed: Spark may have been killed before."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None

    def __call__(self, document: object) -> None:
        if self._session is None:
            self._session = connect(str(uuid4()))
        in_session(self._session)(document)

    def end(self) -> None:
        if self._session is not None:
            self._session.stop()
        self._session = None


@pytest.fixture
def job(stack) -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.end()


@dataclass
class Victim:
    """A run in a process of its own, which stops at a cut."""

    process: subprocess.Popen[str]
    proxy: Proxy | None

    def wait_for_the_cut(self) -> None:
        if self.proxy is None:
            assert AT_THE_CUT in map(str.strip, iter(self.process.stdout.readline, "")), self.process.poll()
        else:
            struck = self.proxy.struck.is_set
            eventually(lambda: struck() or self.process.poll() is not None, 300, "the commit is held")
            assert struck(), self.process.communicate()[0]

    def let_go(self) -> str:
        """What is left of it may end as it can; returns what it said."""
        if self.proxy is not None:
            self.proxy.released.set()
        return self.process.communicate(timeout=300)[0]


@pytest.fixture
def victim(shop, stack) -> Iterator[Callable[[str, str, str], Victim]]:
    with ExitStack() as opened:

        def begin(dataset: str, cut: str, run: str) -> Victim:
            spec = {"folder": str(shop.folder), "suffix": shop.suffix, "dataset": dataset, "day": str(DAY)}
            spec |= {"cut": cut, "run": run}
            environment, proxy = dict(os.environ), None
            if cut in HELD:
                (who, update, fault), own = HELD[cut], dataset.partition(".")[2]
                proxy = opened.enter_context(proxied(stack.catalog_uri, update, fault, own if who == "spark" else ""))
                if who == "spark":
                    spec["catalog_of_spark"] = proxy.uri
                else:
                    environment["LAKEHOUSE_CATALOG_URI"] = proxy.uri
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.stack.victim", json.dumps(spec)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            opened.callback(process.kill)
            return Victim(process, proxy)

        yield begin


def test_a_client_that_its_killed_task_left_behind_changes_nothing(victim, shop, job):
    expected, run = shop.deliver([FIRST, DAY], RECIPE), f"run-{uuid4().hex}"
    shop.run(shop.bronze, FIRST, job)
    killed = victim(shop.bronze, "left_behind", run)
    assert killed.process.wait(timeout=180) == -signal.SIGKILL
    assert answers.bronze_count(shop, DAY) == 0
    shop.run(shop.bronze, DAY, job, Attempt(run, 2))
    answers.whole(shop, shop.bronze, expected)
    assert shop.run(shop.bronze, DAY, job) is None


@pytest.mark.parametrize(
    ("who", "cut", "layer"),
    [pytest.param(*one, marks=[] if one in ALWAYS else [pytest.mark.full]) for one in MATRIX],
)
def test_what_is_killed_at_any_cut_leaves_a_whole_state_and_its_retry_converges(
    who, cut, layer, running, shop, victim, job
):
    expected, run = shop.deliver([FIRST, DAY], RECIPE), f"run-{uuid4().hex}"
    dataset = shop.bronze if layer == "bronze" else shop.silver
    for day in (FIRST, DAY) if layer == "silver" else (FIRST,):
        shop.run(shop.bronze, day, job)
    job.end()  # a session has the role that it was made in
    if layer == "silver":
        shop.run(dataset, FIRST, job)
        job.end()
    before, _ = shop.state()[dataset]
    old = victim(dataset, cut, run)
    old.wait_for_the_cut()
    if who == "task":
        old.process.kill()
        old.process.wait()
    else:
        kill_spark(running)
    main, _ = shop.state()[dataset]
    # Silver's own table is the last that its batch publishes: the cut lies after the first.
    published = ("during_publish", "after_publish") if layer == "bronze" else ("after_publish",)
    assert (main != before) == (cut in published)

    shop.run(dataset, DAY, job, Attempt(run, 2))
    answers.whole(shop, dataset, expected)
    said = old.let_go()
    answers.whole(shop, dataset, expected)
    assert shop.run(dataset, DAY, job) is None, said
