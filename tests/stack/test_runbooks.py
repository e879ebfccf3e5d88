"""The runbooks' commands, run as they are written on the real stack."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import date

import pytest

from lakehouse.advice import DOCS, RUNBOOKS
from lakehouse.airflow_api import AirflowApi
from lakehouse.naming import dag_id
from lakehouse.sample import Recipe
from lakehouse.settings import ROOT, settings
from lakehouse.stack.supervision import Supervisor
from tests.pages import commands
from tests.stack.harness import Stack, eventually
from tests.stack.shop import Shop

pytestmark = [pytest.mark.timeout(1800), pytest.mark.full]

DAY, WRITTEN = date(2026, 1, 1), "2026-11-15"
PAGES = sorted((ROOT / DOCS / RUNBOOKS).glob("*.md"))
# They need a file, a version or a branch of the incident's own.
OWN = ("lakehouse land ", "lakehouse rollback ", "--at BRANCH", "lakehouse backfill ")


def written() -> list[str]:
    """Every command of the pages, once. Where all is well, each may be run."""
    lines = {shlex.join(words) for page in PAGES for words in commands(page.read_text(), "lakehouse")}
    return sorted(line for line in lines if not any(part in line for part in OWN))


@pytest.fixture(scope="module")
def shop(running, airflow) -> Iterator[Shop]:
    """A shop with one day in bronze and silver, run by Airflow, on a stack that is wholly up."""
    running.lakehouse("up")
    opened = Shop.open(settings().contracts, start="2099-01-01")
    opened.deliver([DAY], Recipe.of(0.1, 5, None))
    with AirflowApi(airflow) as api:
        wanted = {dag_id(dataset) for dataset in opened.datasets}
        eventually(lambda: wanted <= api.dags(), 240, "Airflow shows the new contracts' DAGs")
        for dag in wanted:
            api.unpause(dag)
    for dataset in (opened.bronze, opened.silver):
        running.lakehouse("airflow", "dags", "backfill", "-s", str(DAY), "-e", str(DAY), dag_id(dataset))
    yield opened
    Supervisor(running.settings).stop("watch")
    opened.close()


def fill_in(line: str, shop: Shop) -> list[str]:
    """The page's dataset and day, replaced by the shop's."""
    for dataset in shop.datasets:
        example = dataset.removesuffix(f"_{shop.suffix}")
        line = line.replace(example, dataset).replace(dag_id(example), dag_id(dataset))
    return shlex.split(line.replace(WRITTEN, str(DAY)))[1:]


@pytest.mark.parametrize("line", written())
def test_a_command_works_as_it_is_written(line, shop, running: Stack):
    done = running.lakehouse(*fill_in(line, shop), check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_commands_to_run():
    assert len(written()) > 30
