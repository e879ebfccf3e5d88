"""What changes to a large silver table cost: beside the least that would do, beside a smaller table, and once more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from random import Random

import pytest
from pyspark.sql import SparkSession

from lakehouse.catalog import table
from lakehouse.identities import identity
from lakehouse.naming import table_sql
from lakehouse.roles import Role
from lakehouse.settings import settings
from tests.bench.big_shop import CHANGES, RECENT, BigShop
from tests.stack.shop import RunJob, in_session

BIG, SMALL = 10_000_000, 1_000_000
ROUNDS = 3
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def job(spark) -> RunJob:
    return in_session(spark)


@pytest.fixture(scope="module")
def shops(spark, job, tmp_path_factory) -> Iterator[dict[int, BigShop]]:
    opened = {rows: BigShop.open(spark, tmp_path_factory.mktemp(f"shop{rows}"), rows) for rows in (SMALL, BIG)}
    for shop in opened.values():
        shop.clean(CHANGES, shop.recent(100, Random(0)), job)
    yield opened
    for shop in opened.values():
        shop.shop.close()


def keys() -> dict[str, str]:
    """Access to the warehouse for files by hand; jobs have it through the catalog."""
    own, bucket = identity(settings(), Role.ADMIN), settings().warehouse_bucket
    return {f"fs.s3a.bucket.{bucket}.access.key": own.access_key, f"fs.s3a.bucket.{bucket}.secret.key": own.secret_key}


def rewritten_by_hand(spark: SparkSession, shop: BigShop, snapshot: int, batch_id: str) -> tuple[float, int]:
    """Only the files that hold changed rows are read, joined with the changes and written again, as plain Parquet.

    The changes are given as Parquet, too, with their types: reading and checking JSON is not counted here.
    """
    found = table(shop.shop.silver)
    assert found is not None
    first = CHANGES - timedelta(RECENT)
    tasks = list(found.scan(f"ordered_at >= '{first}T00:00:00+00:00'", snapshot_id=snapshot).plan_files())
    files = [task.file.file_path.replace("s3://", "s3a://") for task in tasks]
    scratch = f"s3a://{settings().warehouse_bucket}/_bench/{shop.shop.suffix}"
    own = spark.read.table(table_sql(shop.shop.silver)).where(f"_batch_id = '{batch_id}'")
    own.write.options(**keys()).mode("overwrite").parquet(f"{scratch}/changes")
    begun = time.perf_counter()
    changes = spark.read.options(**keys()).parquet(f"{scratch}/changes")
    before = spark.read.options(**keys()).parquet(*files).select(*changes.columns)
    kept = before.join(changes.select("order_id"), "order_id", "left_anti")
    kept.unionByName(changes).write.options(**keys()).mode("overwrite").parquet(f"{scratch}/result")
    return time.perf_counter() - begun, sum(task.file.file_size_in_bytes for task in tasks)


def test_one_per_cent_of_changed_keys_beside_rewriting_their_files_by_hand(report, spark, job, shops):
    shop, luck = shops[BIG], Random(1)
    ours, whole, hand, written, touched = [], [], [], [], []
    for number in range(ROUNDS):
        day = CHANGES + timedelta(1 + number)
        seconds, done = shop.clean(day, shop.recent(BIG // 100, luck), job)
        assert done.own.base is not None
        assert done.batch.counts["updated"] > BIG // 100 * 0.5  # an order may have been paid by an earlier round
        by_hand, size = rewritten_by_hand(spark, shop, done.own.base, done.batch.batch_id)
        ours.append(done.batch.measures["write_s"])
        whole.append(seconds)
        hand.append(by_hand)
        found = table(shop.shop.silver)
        snapshot = found.snapshot_by_id(done.own.head or 0) if found else None
        assert snapshot is not None
        assert snapshot.summary is not None
        written.append(int(snapshot.summary.get("added-files-size") or 0))
        touched.append(size)
    report.add(f"clean and MERGE of {BIG // 100:,} changes into {BIG:,} rows", ours)
    report.add("the same with audit and publish", whole)
    report.add("plain Parquet: read, join, rewrite the files it must touch", hand)
    report.ratio("clean and MERGE / plain rewrite", ours, hand, at_most=2)
    report.ratio("bytes written / bytes of the files touched", written, touched, at_most=3)


def test_the_same_batch_into_a_table_ten_times_as_large(report, job, shops):
    takes: dict[int, list[float]] = {SMALL: [], BIG: []}
    for number in range(ROUNDS):
        day = CHANGES + timedelta(1 + ROUNDS + number)
        for rows, shop in shops.items():
            seconds, done = shop.clean(day, shop.recent(10_000, Random(number)), job)
            assert done.batch.counts["rows_in"] == 10_000
            takes[rows].append(seconds)
    report.add(f"10,000 changes into {SMALL:,} rows: write, audit, publish", takes[SMALL])
    report.add(f"the same into {BIG:,} rows", takes[BIG])
    report.ratio("the same batch into a ten times larger table", takes[BIG], takes[SMALL], at_most=1.5)


def test_an_interval_that_is_done_once_more(report, job, shops):
    shop, day = shops[BIG], CHANGES + timedelta(1 + 2 * ROUNDS)
    shop.deliver(day, shop.recent(100_000, Random(7)))
    datasets = (shop.shop.bronze, shop.shop.silver)
    first = sum(shop.run(dataset, day, job)[0] for dataset in datasets)
    before = shop.shop.state()
    again = [sum(shop.run(dataset, day, job)[0] for dataset in datasets) for _ in range(ROUNDS)]
    assert shop.shop.state() == before
    report.add("bronze and silver of an interval, first run", [first])
    report.add("the same, once more", again)
    report.ratio("an interval once more / its first run", again, [first] * ROUNDS, unit="%", at_most=20)
