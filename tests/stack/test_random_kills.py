"""Runs and Spark killed at random moments, for minutes: tables are at a whole state each time, and end as they should.

The seed decides when and whom; the moment within a run is the machine's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import date, timedelta
from random import Random
from uuid import uuid4

import pytest

from lakehouse.batch import PUBLISHED
from lakehouse.catalog import coverage, table
from lakehouse.ledger import batches, leases
from lakehouse.query import run_sql
from lakehouse.sample import DIRT, Recipe
from lakehouse.settings import ROOT
from tests.oracle import Result
from tests.stack import answers
from tests.stack.harness import Stack, kill_spark
from tests.stack.shop import Shop, interval

SEED = 11
SECONDS = 600
# A run takes some ten seconds: about every other try is killed, and one kill in eight is of Spark.
LONGEST = 20.0
OF_SPARK = 1 / 8
FIRST = date(2026, 1, 1)
RECIPE = Recipe.of(0.05, 3, DIRT)
pytestmark = [pytest.mark.full, pytest.mark.timeout(3 * SECONDS)]


class Model:
    """What the tables should hold, by how many days they cover."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.days: list[date] = []
        self.after: list[Result] = [Result()]

    def deliver(self) -> date:
        """One day more."""
        self.days.append(FIRST + timedelta(len(self.days)))
        self.after.append(self.shop.deliver(self.days, RECIPE))
        return self.days[-1]

    def covered(self, dataset: str) -> Result:
        """What a dataset that covers so many days is made of."""
        known = coverage(table(dataset))
        held = [interval(day) in known for day in self.days]
        assert held == sorted(held, reverse=True), f"{dataset} covers a day and not the one before"
        return self.after[sum(held)]

    def whole(self) -> None:
        """Each table holds all of the days that it covers, and nothing else."""
        shop = self.shop
        if table(shop.bronze) is not None:
            _, rows = run_sql(f"SELECT _ingestion_date, count(*) FROM {shop.bronze} GROUP BY 1")
            assert dict(rows) == self.covered(shop.bronze).bronze
        if table(shop.silver) is not None:
            assert answers.silver(shop) == self.covered(shop.silver).silver
        if table(shop.gold) is not None:
            assert answers.gold(shop) == self.covered(shop.gold).gold

    def done(self) -> None:
        """Every day is there, once, and nothing stays leased or undecided."""
        self.whole()
        for dataset in self.shop.datasets:
            assert self.covered(dataset) is self.after[-1]
            assert leases.holder(dataset) is None
            assert {batch.state for batch in batches.recent(dataset, 1000)} == {PUBLISHED}
        assert answers.quarantine(self.shop) == self.after[-1].quarantine


@pytest.fixture
def model(shop) -> Model:
    return Model(shop)


def test_runs_killed_at_random_leave_whole_states_and_end_as_the_oracle_says(running, model):
    luck, fates, deadline = Random(SEED), Counter(), time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        day = model.deliver()
        for dataset in model.shop.datasets:
            run = f"run-{uuid4().hex}"
            for number in range(1, 1000):
                fate = tried(running, model.shop, dataset, day, (run, number), luck)
                fates[fate] += 1
                model.whole()
                if fate.startswith("ended"):
                    break
    model.done()
    print(f"{len(model.days)} days; tries: {dict(fates)}")
    assert fates["killed"] > 5
    assert fates["failed without Spark"] + fates["ended without Spark"] > 0


def tried(running: Stack, shop: Shop, dataset: str, day: date, attempt: tuple[str, int], luck: Random) -> str:
    """One try of a run, in a process of its own: it ends, it is killed, or Spark is killed under it."""
    moment, of_spark = luck.uniform(0, LONGEST), luck.random() < OF_SPARK
    spec = {"folder": str(shop.folder), "suffix": shop.suffix, "dataset": dataset, "day": str(day), "cut": "none"}
    spec |= {"run": attempt[0], "number": attempt[1]}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.stack.victim", json.dumps(spec)],
        cwd=ROOT,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            if not of_spark:
                process.send_signal(signal.SIGKILL)
                return "killed"
            kill_spark(running)
            try:
                process.communicate(timeout=300)
            finally:
                process.kill()
            return "ended without Spark" if process.returncode == 0 else "failed without Spark"
        assert process.returncode == 0, said
        return "ended"
