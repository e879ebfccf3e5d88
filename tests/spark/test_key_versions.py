"""Versions of a key: the newest counts, and what it does depends on what the table and its tombstones hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame

from spark_jobs.key_versions import OUTCOME, TARGET, Shape, against, order_of, ranked

RECORDS = "id int, status string, at int, _source_offset bigint, _source_file string, _content string"
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


def decided(
    spark, *cases: tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]], known_from: str = "g"
) -> list[str]:
    """What becomes of each (status, at, delete) where the table holds (status, at) and a delete at (at) is known.

    Changes are of line 5 of file f, what is known is of the same line of another file.
    """
    changes = [(key, status, at, 5, "f", delete) for key, ((status, at, delete), _, _) in enumerate(cases)]
    target = [(key, *holds, 5, known_from) for key, (_, holds, _) in enumerate(cases) if holds]
    tombstones = [(key, *gone, 5, known_from) for key, (_, _, gone) in enumerate(cases) if gone]
    frames = (spark.createDataFrame(*given) for given in ((changes, CHANGES), (target, ROWS), (tombstones, GONE)))
    return [row[OUTCOME] for row in against(*frames, SHAPE).orderBy("id").collect()]


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


def test_what_a_version_does_depends_on_what_is_known(spark):
    cases = {
        "a new key is inserted": (("new", 1, False), (), (), "inserted"),
        "a newer version updates": (("paid", 2, False), ("new", 1), (), "updated"),
        "an equal version leaves the row alone": (("new", 1, False), ("new", 1), (), "unchanged"),
        "an older version is superseded": (("new", 1, False), ("paid", 2), (), "superseded"),
        "a newer delete deletes": (("new", 2, True), ("new", 1), (), "deleted"),
        "an older delete is superseded": (("new", 1, True), ("paid", 2), (), "superseded"),
        "a delete of nothing changes nothing": (("new", 1, True), (), (), "unchanged"),
        "an older change stays deleted": (("new", 1, False), (), (2,), "superseded"),
        "a change as old as the delete stays deleted": (("new", 2, False), (), (2,), "superseded"),
        "a newer change comes back after a delete": (("new", 3, False), (), (2,), "inserted"),
        "a second delete of nothing changes nothing": (("new", 1, True), (), (2,), "unchanged"),
        "an older version than the row stays superseded": (("paid", 2, False), ("new", 3), (1,), "superseded"),
        "an old delete does not hinder an update": (("paid", 4, False), ("new", 3), (1,), "updated"),
    }
    found = decided(spark, *(case[:3] for case in cases.values()))
    assert dict(zip(cases, found, strict=True)) == {sentence: case[3] for sentence, case in cases.items()}


def test_a_record_that_made_the_row_or_the_delete_counts_as_it_is_read_now(spark):
    cases = {
        "it updates what it made": (("paid", 1, False), ("new", 1), (), "updated"),
        "also where it is older by now": (("paid", 1, False), ("new", 2), (), "updated"),
        "or deletes it": (("new", 1, True), ("new", 1), (), "deleted"),
        "or brings back what it deleted": (("new", 1, False), (), (1,), "inserted"),
        "or leaves it": (("new", 1, False), ("new", 1), (), "unchanged"),
    }
    found = decided(spark, *(case[:3] for case in cases.values()), known_from="f")
    assert dict(zip(cases, found, strict=True)) == {sentence: case[3] for sentence, case in cases.items()}


def test_a_row_without_a_time_gives_way_to_one_that_has_one(spark):
    timed, timeless = ("paid", 1, False), ("paid", None, False)
    assert decided(spark, (timed, ("new", None), ()), (timeless, ("new", 1), ())) == ["updated", "superseded"]


def test_a_null_in_the_content_is_a_value_like_any_other(spark):
    same, newer = (None, 1, False), (None, 2, False)
    assert decided(spark, (same, (None, 1), ()), (newer, ("new", 1), ())) == ["unchanged", "updated"]


def test_each_version_keeps_the_row_it_meets_and_comes_out_once(spark):
    changes = spark.createDataFrame([(1, "paid", 2, 5, "f", False), (2, "new", 1, 6, "f", False)], CHANGES)
    target = spark.createDataFrame([(1, "new", 1, 1, "e"), (3, "new", 1, 2, "e")], ROWS)
    found = against(changes, target, spark.createDataFrame([], GONE), SHAPE)
    assert column(found, TARGET + "status") == ["new", None]
    assert column(found, OUTCOME) == ["updated", "inserted"]
