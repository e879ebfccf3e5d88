"""Each of the shop's sources, delivered in any order, twice, late and corrected, against the oracle, table by table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random
from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation

from lakehouse.catalog import history, ref_snapshot
from lakehouse.ledger import batches
from lakehouse.naming import feed_table, quarantine_table
from lakehouse.query import run_sql
from lakehouse.sample import DIRT, Recipe
from lakehouse.sample.corrections import corrected
from tests.oracle import DATASETS, Change, Oracle, Rejected, click_sessions, records, replayed
from tests.stack.shop import Shop, in_session
from tests.stack.tables import loaded

SOURCES = tuple(DATASETS)
FIRST = date(2026, 1, 1)
# So that one bad record among a day's few is not more than a contract allows.
SCALES = {"customers": 0.5}
# The shop's own catalogue has no feed, but could have one.
MORE = {"products": {"delivers": "snapshot\nchange_feed: true"}}


@dataclass
class Story:
    """What happened to one source: its shop, the oracle's answers, and each run's batch of silver."""

    shop: Shop
    oracle: Oracle
    batch_ids: list[str] = field(default_factory=list)

    def run(self, day: date, job: Any) -> None:
        """Bronze and silver of a day, in the shop and in the oracle."""
        expected = self.oracle.run(day, self.shop.landed(day))
        before = self.shop.state()
        handovers = [self.shop.run(dataset, day, job) for dataset in self.shop.datasets]
        if expected is None:
            assert handovers == [None] * len(handovers)
            assert self.shop.state() == before
        elif handovers[1] is not None:
            self.batch_ids.append(handovers[1].batch.batch_id)


def told(shop: Shop, job: Any, seed: int, days: int) -> Story:
    """Days in a shuffled order, some corrected later; now and then, and in the end, days are run once more."""
    story, luck = Story(shop, Oracle(shop.source)), Random(seed)
    recipe = Recipe.of(SCALES.get(shop.source, 0.05), seed, DIRT, FIRST + timedelta(days // 2))
    calendar = [FIRST + timedelta(n) for n in range(days)]
    shuffled = luck.sample(calendar, days)
    for number, day in enumerate(shuffled, 1):
        shop.put(shop.files(day, recipe))
        story.run(day, job)
        if number % 5 == 0:
            story.run(luck.choice(shuffled[:number]), job)
    for day in luck.sample(calendar, max(2, days // 5)):
        key, data = corrected(shop.source, day, recipe)
        shop.put([(shop.key(key), data)])
        story.run(day, job)
    for day in luck.sample(calendar, min(days, 3)):
        story.run(day, job)
    return story


@pytest.fixture(
    scope="module",
    params=[
        *((source, 5, 4) for source in SOURCES),
        *(pytest.param((source, seed, 30), marks=pytest.mark.full) for source in SOURCES for seed in (5, 8)),
    ],
    ids=lambda given: f"{given[0]}-seed{given[1]}-{given[2]}days",
)
def story(request, stack, spark, tmp_path_factory) -> Iterator[Story]:
    source, seed, days = request.param
    shop = Shop.open(tmp_path_factory.mktemp(source), source, **MORE.get(source, {}))
    yield told(shop, in_session(spark), seed, days)
    shop.close()


def as_keyed(story: Story, table: str, *more: str) -> list[tuple[Any, ...]]:
    """The rows of a table as (key, row of business columns, more columns)."""
    columns = list(story.oracle.dataset.shape.columns)
    _, rows = run_sql(f"SELECT {', '.join((*columns, *more))} FROM {table}")
    found = [(dict(zip(columns, row[: len(columns)], strict=True)), row[len(columns) :]) for row in rows]
    return [(row[story.oracle.dataset.key], row, *rest) for row, rest in found]


def test_bronze_holds_every_record_of_every_version(story):
    _, rows = run_sql(f"SELECT _ingestion_date, count(*) FROM {story.shop.bronze} GROUP BY 1")
    assert dict(rows) == {day: count for day, count in story.oracle.bronze.items() if count}
    _, rows = run_sql(
        f"SELECT count(*), count(DISTINCT (_batch_id, _source_file, _source_offset)) FROM {story.shop.bronze}"
    )
    assert rows[0][0] == rows[0][1]


def test_bronze_keeps_each_record_as_it_came_and_beside_it_the_one_that_corrects_it(story):
    if story.shop.source == "products":
        pytest.skip("is CSV, whose records are written as JSON")
    # Each version of each file, but for those whose bytes another file brought.
    versions = [file for file in story.oracle.landing.seen if file.repeats is None]
    cut = [records(file.day, f"s3://landing/{file.key}", file.data) for file in versions]
    delivered = Counter((row.day, row.source_file, row.source_offset, row.text) for rows in cut for row in rows)
    columns = "_ingestion_date, _source_file, _source_offset, _raw_payload"
    assert Counter(run_sql(f"SELECT {columns} FROM {story.shop.bronze}")[1]) == delivered
    assert len({(file, offset) for _, file, offset, _ in delivered}) < len(delivered), "some were corrected"


def test_bronze_is_partitioned_by_the_day_of_its_interval_alone(story):
    found = loaded(story.shop.bronze)
    fields = [(found.schema().find_column_name(one.source_id), str(one.transform)) for one in found.spec().fields]
    assert fields == [("_ingestion_date", "identity")]


def test_silver_equals_the_oracle(story):
    if story.oracle.dataset.delivers == "events":
        found = as_keyed(story, story.shop.silver, "CAST(_interval_start AS DATE)")
        assert len(found) == len(story.oracle.silver)
        assert {(day, key): row for key, row, day in found} == story.oracle.silver
    else:
        found = as_keyed(story, story.shop.silver)
        assert len(found) == len(story.oracle.silver)
        assert {key: row for key, row in found} == story.oracle.silver  # noqa: C416  # pairs of another type


def test_quarantine_equals_the_oracle(story):
    _, rows = run_sql(
        "SELECT CAST(_interval_start AS DATE), _source_file, _source_offset, _reasons FROM "
        + quarantine_table(story.shop.silver)
    )
    assert sorted(Rejected(day, file, offset, tuple(reasons)) for day, file, offset, reasons in rows) == (
        story.oracle.quarantine
    )


def test_every_run_balances_and_counts_what_the_oracle_counts(story):
    known = {batch.batch_id: batch for batch in batches.published(story.shop.silver)}
    counted = ("inserted", "updated", "deleted", "unchanged", "superseded", "duplicate", "quarantined")
    for batch_id, expected in zip(story.batch_ids, story.oracle.runs, strict=True):
        counts = known[batch_id].counts
        assert counts["rows_in"] == sum(counts.get(name, 0) for name in counted)
        if expected.counts is not None:
            assert {name: counts.get(name, 0) for name in expected.counts} == expected.counts


def test_the_change_feed_equals_the_oracle_and_replaying_it_gives_silver(story):
    if story.oracle.dataset.delivers == "events":
        pytest.skip("has no feed")
    feed: dict[str, list[Change]] = defaultdict(list)
    for key, row, change, batch_id in as_keyed(story, feed_table(story.shop.silver), "_change", "_batch_id"):
        feed[batch_id].append(Change(change, key, row))
    order = {"delete": 0, "update_before": 0, "insert": 1, "update_after": 1}
    found = [sorted(feed[batch_id], key=lambda c: (c.key, order[c.change])) for batch_id in story.batch_ids]
    assert found == [sorted(run.feed, key=lambda c: (c.key, order[c.change])) for run in story.oracle.runs]
    assert sum(map(len, feed.values())) == sum(map(len, found))
    assert replayed(found) == story.oracle.silver


def test_the_feed_is_in_order_of_time_and_only_ever_grows(story):
    if story.oracle.dataset.delivers == "events":
        pytest.skip("has no feed")
    _, rows = run_sql(f"SELECT _batch_id, min(_changed_at) FROM {feed_table(story.shop.silver)} GROUP BY 1 ORDER BY 2")
    assert [batch_id for batch_id, _ in rows] == [b for b in story.batch_ids if b in dict(rows)]
    found = loaded(feed_table(story.shop.silver))
    versions = history(found, ref_snapshot(found))
    assert {version.summary.operation for version in versions} == {Operation.APPEND}


def test_sessions_equal_the_oracle(story):
    if story.shop.source != "clicks":
        pytest.skip("has no sessions")
    columns = "session_date, user_id, session_number, started_at, ended_at, clicks, pages"
    _, rows = run_sql(f"SELECT {columns} FROM {story.shop.gold} ORDER BY 1, 2, 3")
    assert [tuple(row) for row in rows] == [tuple(session) for session in click_sessions(story.oracle.silver.values())]
