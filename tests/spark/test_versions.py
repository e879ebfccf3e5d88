"""Versions of a key: the newest counts, and what it does depends on what the table and its tombstones hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame

from spark_jobs.versions import OUTCOME, TARGET, Shape, against, order_of, ranked

RECORDS = "id int, status string, at int, _source_offset bigint, _source_file string, _raw_payload string"
ROWS = "id int, status string, at int, _source_offset bigint, _source_file string"
CHANGES = f"{ROWS}, _delete boolean"
GONE = "id int, at int, _source_offset bigint, _source_file string"
SHAPE = Shape(key=["id"], content=["id", "status", "at"], order=order_of(["at"]))


def column(rows: DataFrame, name: str) -> list[Any]:
    return [row[name] for row in rows.orderBy("_source_file", "_source_offset").collect()]


def outcomes(spark, *rows: tuple[Any, ...], newest_by: Iterable[str] = ("at",)) -> list[str]:
    """What `ranked` says of rows of (id, status, at, payload), in the order in which they came."""
    records = [(key, status, at, n, "f", payload) for n, (key, status, at, payload) in enumerate(rows)]
    return column(ranked(spark.createDataFrame(records, RECORDS), ["id"], list(newest_by)), OUTCOME)


def decided(spark, change: tuple[Any, ...], *, holds: tuple[Any, ...] = (), gone: tuple[Any, ...] = ()) -> str:
    """What becomes of one (status, at, delete) where the table holds (status, at) and a delete at `gone` is known."""
    status, at, delete = change
    changes = spark.createDataFrame([(1, status, at, 5, "f", delete)], CHANGES)
    target = spark.createDataFrame([(1, *holds, 5, "f")] if holds else [], ROWS)
    tombstones = spark.createDataFrame([(1, *gone, 5, "f")] if gone else [], GONE)
    (outcome,) = column(against(changes, target, tombstones, SHAPE), OUTCOME)
    return outcome


def test_the_newest_version_of_a_key_wins_whatever_the_order_of_arrival(spark):
    found = outcomes(spark, (1, "paid", 2, "b"), (1, "new", 1, "a"), (2, "new", 1, "c"), (1, "shipped", 3, "d"))
    assert found == ["superseded", "superseded", "newest", "newest"]


def test_of_equal_times_the_later_record_wins(spark):
    assert outcomes(spark, (1, "new", 1, "a"), (1, "paid", 1, "b")) == ["superseded", "newest"]


def test_of_equal_times_and_offsets_the_file_decides_so_that_the_order_is_total(spark):
    rows = [(1, "new", 1, 0, "b", "x"), (1, "paid", 1, 0, "a", "y")]
    found = ranked(spark.createDataFrame(rows, RECORDS), ["id"], ["at"])
    assert {row["_source_file"]: row[OUTCOME] for row in found.collect()} == {"b": "newest", "a": "superseded"}


def test_a_record_that_came_twice_is_a_duplicate_whether_or_not_it_is_the_newest(spark):
    found = outcomes(spark, (1, "new", 1, "a"), (1, "new", 1, "a"), (1, "paid", 2, "b"), (1, "paid", 2, "b"))
    assert found == ["duplicate", "superseded", "duplicate", "newest"]


def test_a_record_without_a_time_is_the_oldest(spark):
    assert outcomes(spark, (1, "new", 1, "a"), (1, "paid", None, "b")) == ["newest", "superseded"]


def test_a_key_may_have_several_columns(spark):
    rows = [(1, "new", 1, 0, "f", "a"), (1, "paid", 2, 1, "f", "b")]
    assert column(ranked(spark.createDataFrame(rows, RECORDS), ["id", "status"], ["at"]), OUTCOME) == ["newest"] * 2


def test_the_order_of_versions_ends_with_where_a_record_came_from():
    assert order_of(["at", "_source_offset"]) == ["at", "_source_offset", "_source_file"]
    assert order_of(["_source_file"]) == ["_source_file", "_source_offset"]


@pytest.mark.parametrize(
    ("change", "holds", "gone", "outcome"),
    [
        (("new", 1, False), (), (), "inserted"),
        (("paid", 2, False), ("new", 1), (), "updated"),
        (("new", 1, False), ("new", 1), (), "unchanged"),
        (("new", 1, False), ("paid", 2), (), "superseded"),
        (("new", 2, True), ("new", 1), (), "deleted"),
        (("new", 1, True), ("paid", 2), (), "superseded"),
        (("new", 1, True), (), (), "unchanged"),
        (("new", 1, False), (), (2,), "superseded"),
        (("new", 3, False), (), (2,), "inserted"),
        (("new", 1, True), (), (2,), "unchanged"),
        (("paid", 2, False), ("new", 3), (1,), "superseded"),
        (("paid", 4, False), ("new", 3), (1,), "updated"),
    ],
    ids=[
        "a new key is inserted",
        "a newer version updates",
        "an equal version leaves the row alone",
        "an older version is superseded",
        "a newer delete deletes",
        "an older delete is superseded",
        "a delete of nothing changes nothing",
        "an older change stays deleted",
        "a newer change comes back after a delete",
        "a second delete of nothing changes nothing",
        "a version between an old delete and the row is superseded",
        "an old delete does not hinder an update",
    ],
)
def test_what_a_version_does_depends_on_what_is_known(spark, change, holds, gone, outcome):
    assert decided(spark, change, holds=holds, gone=gone) == outcome


def test_a_change_as_old_as_the_delete_stays_deleted(spark):
    assert decided(spark, ("new", 2, False), gone=(2,)) == "superseded"


def test_a_row_without_a_time_gives_way_to_one_that_has_one(spark):
    assert decided(spark, ("paid", 1, False), holds=("new", None)) == "updated"
    assert decided(spark, ("paid", None, False), holds=("new", 1)) == "superseded"


def test_a_null_in_the_content_is_a_value_like_any_other(spark):
    assert decided(spark, (None, 1, False), holds=(None, 1)) == "unchanged"
    assert decided(spark, (None, 2, False), holds=("new", 1)) == "updated"


def test_each_version_keeps_the_row_it_meets_and_comes_out_once(spark):
    changes = spark.createDataFrame([(1, "paid", 2, 5, "f", False), (2, "new", 1, 6, "f", False)], CHANGES)
    target = spark.createDataFrame([(1, "new", 1, 1, "e"), (3, "new", 1, 2, "e")], ROWS)
    found = against(changes, target, spark.createDataFrame([], GONE), SHAPE)
    assert column(found, TARGET + "status") == ["new", None]
    assert column(found, OUTCOME) == ["updated", "inserted"]
