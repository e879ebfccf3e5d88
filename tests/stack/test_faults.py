"""kill -9, on the real stack: main is at one of two whole states, the retry converges, nothing stays leased."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from uuid import uuid4

import pytest

from lakehouse.batch import PUBLISHED
from lakehouse.catalog import table
from lakehouse.ledger import batches, leases
from lakehouse.plan import Attempt
from lakehouse.sample import Recipe
from lakehouse.settings import ROOT
from tests.stack import answers
from tests.stack.harness import eventually
from tests.stack.shop import Shop, in_session, interval
from tests.stack.victim import CUTS

DAY = date(2026, 1, 1)
RECIPE = Recipe.of(0.05, 3, None)


@pytest.fixture
def shop(stack, tmp_path) -> Iterator[Shop]:
    opened = Shop.open(tmp_path)
    yield opened
    opened.close()


def victim(shop: Shop, dataset: str, cut: str, run: str) -> subprocess.Popen[str]:
    spec = {
        "folder": str(shop.folder),
        "suffix": shop.suffix,
        "dataset": dataset,
        "day": str(DAY),
        "cut": cut,
        "run": run,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stack.victim", json.dumps(spec)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rows_in_main(shop: Shop) -> int:
    return answers.bronze_count(shop, DAY) if table(shop.bronze) else 0


@pytest.mark.parametrize("cut", CUTS)
def test_a_run_killed_at_any_cut_leaves_a_whole_state_and_its_retry_converges(cut, shop, spark):
    expected = shop.deliver([DAY], RECIPE).bronze[DAY]
    run = f"run-{uuid4().hex}"
    killed = victim(shop, shop.bronze, cut, run)
    assert killed.wait(timeout=180) == -signal.SIGKILL, killed.communicate()[0]
    assert rows_in_main(shop) == (expected if cut == "after_commit" else 0)

    shop.run(shop.bronze, DAY, in_session(spark), Attempt(run, 2))

    assert rows_in_main(shop) == expected
    assert [b.state for b in batches.recent(shop.bronze)] == [PUBLISHED]
    assert leases.holder(shop.bronze) is None
    assert shop.run(shop.bronze, DAY, in_session(spark)) is None


def test_a_connect_server_killed_in_the_middle_of_a_write_loses_nothing(running, shop):
    expected = shop.deliver([DAY], RECIPE).bronze[DAY]
    run = f"run-{uuid4().hex}"
    writer = victim(shop, shop.bronze, "never", run)
    eventually(lambda: table(shop.bronze) is not None or writer.poll() is not None, 120, "the job has begun")
    server = running.pid("spark")
    os.kill(server, signal.SIGKILL)
    output, _ = writer.communicate(timeout=300)
    eventually(lambda: running.pid("spark") not in (0, server) and running.healthy(), 180, "Spark is back")
    if writer.returncode != 0:
        assert any(line.startswith("error: ") for line in output.splitlines()), output
        assert rows_in_main(shop) == 0
    again = victim(shop, shop.bronze, "never", run)
    output, _ = again.communicate(timeout=300)
    assert again.returncode == 0, output
    assert rows_in_main(shop) == expected
    assert len(batches.published_in(shop.bronze, interval(DAY))) == 1
    assert leases.holder(shop.bronze) is None
