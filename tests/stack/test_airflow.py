"""The whole of it: Airflow, over its REST API, runs the shop's days from bronze to gold on the real stack."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from lakehouse.ledger import leases
from lakehouse.naming import dag_id
from lakehouse.sample import Recipe
from lakehouse.settings import settings
from lakehouse.stack.airflow_api import AirflowApi
from tests.stack import answers
from tests.stack.harness import eventually
from tests.stack.shop import Shop

pytestmark = pytest.mark.timeout(1800)

FIRST = date(2026, 1, 1)
RECIPE = Recipe.of(0.1, 5, None)
DAYS = [FIRST + timedelta(n) for n in range(2)]


@pytest.fixture(scope="module")
def contracts(airflow) -> Path:
    return settings().contracts


@pytest.fixture(scope="module")
def api(airflow) -> Iterator[AirflowApi]:
    with AirflowApi(airflow) as session:
        yield session


@pytest.fixture(scope="module")
def shop(contracts) -> Iterator[Shop]:
    """A shop whose schedule has two intervals, both in the past: Airflow catches up on them and stops."""
    opened = Shop.open(contracts, start=f"{FIRST}\nend: {DAYS[-1] + timedelta(1)}")
    yield opened
    opened.close()


def states(api: AirflowApi, dataset: str) -> list[str]:
    return [run.state for run in api.runs(dag_id(dataset), FIRST, FIRST + timedelta(60))]


@pytest.fixture(scope="module")
def caught_up(shop, api):
    """All intervals of all layers run by Airflow's scheduler."""
    expected = shop.deliver(DAYS, RECIPE)
    wanted = {dag_id(dataset) for dataset in shop.datasets}
    eventually(lambda: wanted <= api.dags(), 120, "Airflow shows the new contracts' DAGs")
    for dag in wanted:
        api.unpause(dag)

    def done() -> bool:
        found = [states(api, dataset) for dataset in shop.datasets]
        assert not any("failed" in runs for runs in found), failures(api, shop)
        return found == [["success"] * len(DAYS)] * 3

    eventually(done, 900, "every interval of every layer has run")
    return expected


def failures(api: AirflowApi, shop: Shop) -> list[tuple[str, str]]:
    runs = [run for dataset in shop.datasets for run in api.runs(dag_id(dataset), FIRST, FIRST + timedelta(60))]
    return [api.failure(run) for run in runs if run.state == "failed"]


def test_airflow_brings_every_day_to_gold_and_gold_equals_the_oracle(caught_up, shop):
    assert answers.gold(shop) == sorted(caught_up.gold, key=repr)


def test_silver_and_quarantine_equal_the_oracle(caught_up, shop):
    assert answers.silver(shop) == caught_up.silver
    assert answers.quarantine(shop) == sorted(caught_up.quarantine)


def test_no_lease_is_left(caught_up, shop):
    assert [leases.holder(dataset) for dataset in shop.datasets] == [None] * 3
