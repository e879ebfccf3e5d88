"""Orders through every layer on the real Spark, catalog and store, against the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from threading import Barrier
from uuid import uuid4

import pytest

from lakehouse import steps
from lakehouse.catalog import history, ref_snapshot
from lakehouse.contracts.load import load
from lakehouse.jobs import BuildJob, taken_over
from lakehouse.ledger import batches, leases
from lakehouse.plan import Attempt
from lakehouse.provenance import batch_of
from lakehouse.query import run_sql
from lakehouse.sample import Recipe
from spark_jobs.session import connect
from spark_jobs.tables import ensure_namespace
from tests.oracle import Result
from tests.stack import answers
from tests.stack.shop import Shop, in_session, interval
from tests.stack.tables import drop_namespace, head, loaded

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


def test_every_batch_says_how_long_its_steps_took_and_how_much_it_read_and_wrote(built, shop):
    for dataset in shop.datasets:
        known = {batch.interval.start.date(): batch.measures for batch in batches.published(dataset)}
        assert sorted(known) == DAYS
        for measures in known.values():
            assert min(measures[name] for name in ("write_s", "audit_s", "publish_s", "bytes_out")) > 0
        landed = {day: sum(map(len, shop.landed(day).values())) if dataset == shop.bronze else 0 for day in DAYS}
        assert {day: measures["bytes_in"] for day, measures in known.items()} == landed


def test_every_batch_names_its_version_in_the_history_of_main(built, shop):
    for dataset in shop.datasets:
        found = loaded(dataset)
        line = {one.snapshot_id: batch_of(one) for one in history(found, ref_snapshot(found))}
        known = batches.published(dataset)
        named = [next(w.head for w in batch.writes if w.table == dataset) for batch in known]
        assert [line.get(one) for one in named] == [batch.batch_id for batch in known]
        assert named[0] == head(dataset), "the newest is what readers see"


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


@pytest.mark.parametrize("layer", ["bronze", "silver"])
def test_two_runs_of_one_interval_at_once_make_one_batch(layer, stack, tmp_path, spark):
    shop = Shop.open(tmp_path)
    expected = shop.deliver(DAYS[:1], RECIPE)
    dataset = shop.bronze
    if layer == "silver":
        shop.run(shop.bronze, DAYS[0], in_session(spark))
        dataset = shop.silver
    done = at_once(shop, dataset)
    assert sum(one is not None for one in done) == 1
    assert len(batches.published_in(dataset, interval(DAYS[0]))) == 1
    answers.whole(shop, dataset, expected)
    shop.close()


def at_once(shop: Shop, dataset: str) -> list[steps.Handover | None]:
    """Two runs of the first day that begin together, each in a session of its own."""
    start, sessions = Barrier(2), [connect(str(uuid4())) for _ in range(2)]

    def run(number: int) -> steps.Handover | None:
        start.wait()
        return shop.run(dataset, DAYS[0], in_session(sessions[number]), Attempt(f"run-{number}", 1))

    try:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(run, range(2)))
    finally:
        for session in sessions:
            session.stop()


def test_a_row_committed_by_somebody_else_between_write_and_publish_is_kept(stack, tmp_path, spark):
    shop = Shop.open(tmp_path)
    expected = shop.deliver(DAYS[:2], RECIPE)
    job, attempt = in_session(spark), Attempt("held", 1)
    shop.run(shop.bronze, DAYS[0], job)
    contract = shop.contract(shop.bronze)
    steps.take_lease(shop.bronze, attempt)
    held = steps.write(contract, interval(DAYS[1]), attempt, job)
    assert held is not None
    steps.audit(contract, held, attempt, job)

    foreign = loaded(shop.bronze).scan(limit=1).to_arrow()
    loaded(shop.bronze).append(foreign)
    done = steps.make_public(contract, interval(DAYS[1]), held, attempt, job)

    assert done is not None
    assert done.own.base != held.own.base
    assert answers.bronze_count(shop, DAYS[0]) == expected.bronze[DAYS[0]] + 1
    assert answers.bronze_count(shop, DAYS[1]) == expected.bronze[DAYS[1]]
    leases.release(shop.bronze, attempt.run)
    shop.close()


def test_gold_builds_again_only_the_days_whose_orders_changed(built, shop):
    keys = [h.job_key for h in shop.handovers if h.batch.dataset == shop.gold and h.job_key]
    first, *later = [taken_over(key) for key in keys]
    assert isinstance(first, BuildJob)
    assert first.days is None
    for job in later:
        assert isinstance(job, BuildJob)
        assert job.days


def test_a_contract_that_gains_a_column_gains_it_in_its_table(stack, tmp_path, spark):
    shop = Shop.open(tmp_path)
    shop.deliver(DAYS[:2], RECIPE)
    for dataset in (shop.bronze, shop.silver):
        shop.run(dataset, DAYS[0], in_session(spark))
    file = tmp_path / "silver" / f"orders_{shop.suffix}.yaml"
    column = "  op: {type: string, from: op, description: What happened.}"
    file.write_text(file.read_text().replace("\nkey:", f"\n{column}\nkey:"))
    for dataset in (shop.bronze, shop.silver):
        shop.run(dataset, DAYS[1], in_session(spark))
    _, rows = run_sql(f"SELECT op, count(*) FROM {shop.silver} GROUP BY op")
    assert {None, "c"} <= {op for op, _ in rows}
    shop.close()


def test_a_namespace_that_several_jobs_create_at_once_is_created(stack, spark):
    jobs = 8
    for _ in range(10):
        namespace, start = f"at_once_{uuid4().hex[:8]}", Barrier(jobs)

        def create(namespace: str = namespace, start: Barrier = start) -> None:
            start.wait()
            ensure_namespace(spark, f"lake.{namespace}")

        with ThreadPoolExecutor(jobs) as pool:
            for made in [pool.submit(create) for _ in range(jobs)]:
                made.result()
        drop_namespace(namespace)
