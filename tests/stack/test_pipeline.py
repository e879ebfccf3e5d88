"""Orders through every layer on the real Spark, catalog and store, against the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from threading import Thread

import pytest

from lakehouse.contracts.load import load
from lakehouse.ledger import batches, leases
from lakehouse.plan import Attempt
from lakehouse.sample import Recipe
from tests.oracle import Result
from tests.stack import answers
from tests.stack.shop import Shop, in_session, interval

DAYS = [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)]
RECIPE = Recipe.of(0.2, 11, None)


@pytest.fixture(scope="module")
def shop(stack, tmp_path_factory) -> Iterator[Shop]:
    opened = Shop.open(tmp_path_factory.mktemp("contracts"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def expected(shop) -> Result:
    return shop.deliver(DAYS, RECIPE)


@pytest.fixture(scope="module")
def built(shop, expected, spark) -> Result:
    """All days through all layers, the last two in the wrong order."""
    for day in (DAYS[0], DAYS[2], DAYS[1]):
        for dataset in shop.datasets:
            shop.run(dataset, day, in_session(spark))
    return expected


def test_the_copied_contracts_are_right(shop):
    assert load(shop.folder).problems == ()


def test_bronze_holds_every_line_once(built, shop):
    assert {day: answers.bronze_count(shop, day) for day in DAYS} == built.bronze


def test_silver_equals_the_oracle_though_the_days_came_out_of_order(built, shop):
    assert answers.silver(shop) == built.silver


def test_quarantine_equals_the_oracle(built, shop):
    assert answers.quarantine(shop) == sorted(built.quarantine)


def test_gold_equals_the_oracle(built, shop):
    assert answers.gold(shop) == sorted(built.gold, key=repr)


def test_every_silver_batch_balances(built, shop):
    for batch in batches.recent(shop.silver):
        counts = dict(batch.counts)
        assert counts.pop("rows_in") == sum(counts.values()) > 0


def test_running_every_interval_again_commits_nothing(built, shop, spark):
    before = shop.state()
    for day in DAYS:
        for dataset in shop.datasets:
            assert shop.run(dataset, day, in_session(spark)) is None
    assert shop.state() == before


def test_nothing_is_left_behind(built, shop):
    from lakehouse.catalog import table
    from lakehouse.naming import tables_of

    for dataset in shop.datasets:
        assert leases.holder(dataset) is None
        for name in tables_of(dataset):
            found = table(name)
            assert found is not None
            assert list(found.metadata.refs) == ["main"]


def test_two_runs_of_one_interval_at_once_make_one_batch(stack, tmp_path, spark):
    shop = Shop.open(tmp_path)
    expected = shop.deliver(DAYS[:1], RECIPE)
    runs = [
        Thread(target=shop.run, args=(shop.bronze, DAYS[0], in_session(spark), Attempt(f"run-{n}", 1)))
        for n in range(2)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert len(batches.published_in(shop.bronze, interval(DAYS[0]))) == 1
    assert answers.bronze_count(shop, DAYS[0]) == expected.bronze[DAYS[0]]
    shop.close()
