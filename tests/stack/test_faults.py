"""kill -9 on the real stack, of a run and of Spark, wherever they are: main is whole, the retry converges at once.

What was killed may leave work behind that goes on: a commit on its way, a job on the server, a client without a task.
It is let go after the retry, and must change nothing.
"""

from __future__ import annotations

import signal
from uuid import uuid4

import pytest

from lakehouse.plan import Attempt
from lakehouse.sample import DIRT, Recipe
from tests.stack import answers
from tests.stack.harness import kill_spark
from tests.stack.killing import DAY, FIRST

RECIPE = Recipe.of(0.05, 3, DIRT)
CUTS = (
    "before_write",
    "after_data_files",
    "during_commit",
    "after_write",
    "before_publish",
    "during_publish",
    "after_publish",
)
# Silver's quarantine, tombstones and feed are public before its own table is.
OF_SILVER = ("before_own", "during_own")
MATRIX = [(who, cut, layer) for layer in ("bronze", "silver") for who in ("task", "spark") for cut in CUTS]
MATRIX += [(who, cut, "silver") for who in ("task", "spark") for cut in OF_SILVER]
# One of each kind every time, all of them in the full tests.
ALWAYS = [
    ("task", "after_data_files", "bronze"),
    ("task", "during_publish", "bronze"),
    ("task", "after_publish", "bronze"),
    ("task", "before_own", "silver"),
    ("spark", "during_commit", "silver"),
    ("task", "after_data_files", "silver"),
]
pytestmark = pytest.mark.timeout(900)


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
    # Silver's own table is the last that its batch publishes: one cut lies after the first.
    published = ("during_publish" if layer == "bronze" else "during_own", "after_publish")
    assert (main != before) == (cut in published)

    shop.run(dataset, DAY, job, Attempt(run, 2))
    answers.whole(shop, dataset, expected)
    said = old.let_go()
    answers.whole(shop, dataset, expected)
    assert shop.run(dataset, DAY, job) is None, said
