"""What the way to main costs beside a plain write, and what gates cost that need no data file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.catalog import catalog, table
from lakehouse.gates.checks import Check, Missing, NullShare, Outside, Rows
from lakehouse.gates.metadata import answers
from lakehouse.jobs import AuditJob
from lakehouse.naming import CATALOG, quoted, table_sql
from lakehouse.sample import Recipe
from spark_jobs import tables
from spark_jobs.audit import audit
from spark_jobs.keeping import keeping
from tests.bench.big_shop import FIRST, BigShop
from tests.stack.shop import RunJob, in_session, interval

ROWS = 5_000_000
FILES = 1_000
ROWS_PER_FILE = 1_000
ROUNDS = 3
WRITES = 6
GATES = """
gates:
  - row_count: {at_least: 1}
  - nulls: {column: region, at_most: 1%}
  - between: {column: amount, lowest: 0, highest: 100000}
  - accepted: {column: status, values: [new, paid, shipped, cancelled]}
  - {sql: "SELECT order_id FROM head WHERE quantity > 5"}
"""
COPY = """
dataset: gold.copy_{suffix}
description: A large table, as it is.
owner: bench
start: 2026-01-01
reads: [silver.orders_{suffix}]
partition_by: [order_date]
columns:
  order_id:   {{type: bigint}}
  region:     {{type: string}}
  status:     {{type: string}}
  quantity:   {{type: int}}
  amount:     {{type: "decimal(12,2)"}}
  order_date: {{type: date}}
"""
QUERY = """
SELECT order_id, region, status, quantity, amount, CAST(ordered_at AS DATE) AS order_date FROM silver_orders_{suffix}
"""
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def job(spark) -> RunJob:
    return in_session(spark)


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory) -> Iterator[BigShop]:
    folder = tmp_path_factory.mktemp("gated")
    opened = BigShop.open(spark, folder, ROWS)
    suffix = opened.shop.suffix
    (folder / "gold" / f"copy_{suffix}.yaml").write_text(COPY.format(suffix=suffix) + GATES)
    (folder / "gold" / f"copy_{suffix}.sql").write_text(QUERY.format(suffix=suffix))
    yield opened
    opened.shop.close()


def test_write_audit_and_publish_beside_a_plain_write(report, spark, job, shop):
    """Five gates over five million rows, beside the same query written straight to a table's main.

    Both replace what the round before wrote; the first round, in which they find nothing, is not counted.
    """
    name = f"gold.copy_{shop.shop.suffix}"
    plain_table = f"gold.plain_{shop.shop.suffix}"
    shop.shop.deliver([FIRST], Recipe.of(0.05, 3, None))
    shop.shop.run(shop.shop.bronze, FIRST, job)
    shop.shop.run(shop.shop.silver, FIRST, job)
    tables.ensure(spark, plain_table, tables.gold(shop.shop.contract(name)))
    ways = {"ours": lambda query: _written_our_way(shop, name, query, job)}
    ways["plain"] = lambda query: _written_plainly(spark, shop, plain_table, query)
    takes: dict[str, list[float]] = {way: [] for way in ways}
    try:
        for number in range(WRITES + 1):
            query = f"{QUERY.format(suffix=shop.shop.suffix)}-- {number}"
            for way in sorted(ways, reverse=bool(number % 2)):
                takes[way].append(ways[way](query))
    finally:
        catalog().purge_table(plain_table)
        catalog().purge_table(name)
    report.add(f"write, audit by five gates, publish: {ROWS:,} rows", takes["ours"][1:])
    report.add("the same rows straight to main", takes["plain"][1:])
    report.ratio("audited way to main / straight to main", takes["ours"][1:], takes["plain"][1:], at_most=1.25)


def _written_our_way(shop: BigShop, name: str, query: str, job: RunJob) -> float:
    """With another text of the query, as a contract has that was changed: all is built again."""
    (shop.shop.folder / f"{name.replace('.', '/')}.sql").write_text(query)
    seconds, done = shop.run(name, FIRST, job)
    assert done is not None
    assert done.batch.counts["rows_out"] >= ROWS
    return seconds


def _written_plainly(spark: SparkSession, shop: BigShop, name: str, query: str) -> float:
    begun = time.perf_counter()
    spark.read.table(table_sql(shop.shop.silver)).createOrReplaceTempView(f"silver_orders_{shop.shop.suffix}")
    spark.sql(query).writeTo(table_sql(name)).overwrite(F.lit(True))
    return time.perf_counter() - begun


@pytest.fixture
def many_files(spark) -> Iterator[str]:
    """A table of a thousand files, made by one write of as many tasks."""
    name = f"gold.many_{uuid4().hex[:8]}"
    tables.ensure_namespace(spark, quoted(CATALOG, "gold"))
    rows = spark.range(0, FILES * ROWS_PER_FILE, 1, FILES).selectExpr("id", f"id % {ROWS_PER_FILE} AS amount")
    rows.writeTo(table_sql(name)).using("iceberg").tableProperty("write.distribution-mode", "none").create()
    yield name
    catalog().purge_table(name)


def test_gates_by_metadata_beside_the_same_by_scan(report, spark, shop, many_files):
    found = table(many_files)
    assert found is not None
    head = found.metadata.current_snapshot_id
    assert head is not None
    assert len(found.inspect.files()) == FILES
    measures = [
        Rows(),
        NullShare(column="id"),
        Missing(column="amount"),
        Outside(column="amount", type="bigint", lowest="0", highest="1000"),
    ]
    asked = tuple(Check(gate=m.kind, definition=m.kind, measure=m, at_most=10**9) for m in measures)
    contract = shop.shop.contract(f"gold.copy_{shop.shop.suffix}").model_copy(update={"dataset": many_files})
    document = AuditJob(
        key="_jobs/bench",
        session_id="",
        batch_id="",
        interval_start=interval(FIRST).start,
        interval_end=interval(FIRST).end,
        contract=contract,
        snapshot=head,
        checks=asked,
    )
    by_metadata, by_scan = [], []
    for _ in range(ROUNDS + 1):
        begun = time.perf_counter()
        quick = {one.gate: one.value for one in answers(found, head, asked)}
        by_metadata.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        with keeping():
            slow = {one.gate: one.value for one in audit(spark, document).found}
        by_scan.append(time.perf_counter() - begun)
        assert quick == slow
    report.add(f"gates by metadata, {FILES:,} files", by_metadata[1:])
    report.add("the same by scan", by_scan[1:])
    report.ratio("gates by metadata / by scan", by_metadata[1:], by_scan[1:], unit="%", at_most=5)
