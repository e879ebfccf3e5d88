"""Runs in processes of their own that are killed at a cut, and the jobs of those who try again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.settings import ROOT
from spark_jobs.session import connect
from tests.stack.harness import eventually
from tests.stack.proxy import DATA, Proxy, proxied
from tests.stack.shop import in_session
from tests.stack.victim import AT_THE_CUT

# A day is whole before the next is killed: there are rows to lose, and silver's MERGE has some to meet.
FIRST, DAY = date(2026, 1, 1), date(2026, 1, 2)
PUBLISH = b'"set-snapshot-ref"'
# Where the catalog's proxy stops a run: whose commit, by what it holds, how, and whether only one to the own table.
HELD = {
    "after_data_files": ("spark", DATA, "held", True),
    "during_commit": ("spark", DATA, "answer held", True),
    "during_publish": ("task", PUBLISH, "answer held", False),
    "before_own": ("task", PUBLISH, "held", True),
    "during_own": ("task", PUBLISH, "answer held", True),
}


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
                (who, update, fault, is_own), own = HELD[cut], dataset.partition(".")[2]
                proxy = opened.enter_context(proxied(stack.catalog_uri, update, fault, own if is_own else ""))
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
