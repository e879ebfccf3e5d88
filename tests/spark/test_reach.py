"""How far a batch reaches into a table: every row that it meets is found, and little else is read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise

import pytest
from pyspark.sql import DataFrame

from lakehouse.contracts import Silver
from spark_jobs import reach
from spark_jobs.keeping import keeping
from tests.spark.raw_records import LAYERED

ROWS = [
    (1, "a", "2026-01-01 00:00:00"),
    (2, "b", "2026-01-01 23:59:59.999999"),
    (3, "c", "2026-01-02 00:00:00"),
    (4, "d", "2026-03-29 01:30:00"),
    (5, "e", None),
    (6, "f", "9999-12-31 23:59:59.999999"),
]


@pytest.fixture(autouse=True)
def _kept() -> Iterator[None]:
    with keeping():
        yield


def contract(key: str = "id", kind: str = "timestamp", partition_by: tuple[str, ...] = ("day(at)",)) -> Silver:
    columns = {
        "id": {"type": "bigint", "required": True, "from": "id"},
        "name": {"type": "string", "required": True, "from": "name"},
        "at": {"type": kind, "from": "at", "required": key == "at"},
    }
    document = {"dataset": "silver.t", "description": "T.", "owner": "t", "schedule": "@daily", "start": "2026-01-01"}
    document |= {"reads": "bronze.t", "columns": columns, "key": [key], "newest_by": ["at"]}
    return Silver.model_validate({**document, "partition_by": list(partition_by), **LAYERED})


def table(spark, kind: str = "timestamp") -> DataFrame:
    return spark.createDataFrame(ROWS, "id bigint, name string, at string").selectExpr(
        "id", "name", f"CAST(at AS {kind}) AS at"
    )


def ids(rows: DataFrame) -> list[int]:
    return sorted(row["id"] for row in rows.collect())


@pytest.mark.parametrize("kind", ["timestamp", "date"])
@pytest.mark.parametrize(
    ("days", "found"),
    [
        ({date(2026, 1, 1)}, [1, 2]),
        ({date(2026, 1, 1), date(2026, 1, 2)}, [1, 2, 3]),
        ({date(2026, 1, 1), date(2026, 3, 29)}, [1, 2, 4]),
        ({None}, [5]),
        ({None, date(9999, 12, 31)}, [5, 6]),
        (set(), []),
    ],
)
def test_the_condition_on_days_holds_for_their_rows_and_no_others(spark, kind, days, found):
    condition = reach.on_days(contract(kind=kind), frozenset(days), "t")
    assert ids(table(spark, kind).alias("t").where(condition)) == found


def test_days_in_a_row_are_one_stretch_and_very_many_stretches_are_taken_as_one():
    first = date(2026, 1, 1)
    week = frozenset(first + timedelta(n) for n in range(7))
    every_other = frozenset(first + timedelta(2 * n) for n in range(reach.MOST_STRETCHES + 1))
    assert reach.on_days(contract(), week).count("BETWEEN") == 1
    assert reach.on_days(contract(), frozenset(sorted(every_other)[1:])).count("BETWEEN") == reach.MOST_STRETCHES
    assert reach.on_days(contract(), every_other).count("BETWEEN") == 1


def test_a_table_that_is_not_partitioned_by_time_has_no_condition():
    assert reach.on_days(contract(partition_by=()), frozenset([date(2026, 1, 1)])) == ""


@pytest.mark.parametrize("key", ["id", "name", "at"])
@pytest.mark.parametrize("partition_by", [("day(at)",), ()])
@pytest.mark.parametrize("most_keys", [1_000_000, 1])
def test_rows_are_met_by_key_wherever_they_lie(spark, monkeypatch, key, partition_by, most_keys):
    monkeypatch.setattr(reach, "MOST_KEYS", most_keys)
    whole = table(spark)
    wanted = [1, 4, 5, 6] if key != "at" else [1, 4, 6]
    batch = whole.where(whole["id"].isin([1, 4, 5, 6])).select(key)
    given = contract(key, partition_by=partition_by)
    assert ids(reach.met(given, whole, reach.Keys(batch, given.key))) == wanted


def test_a_batch_without_keys_meets_nothing(spark):
    whole = table(spark)
    assert ids(reach.met(contract(), whole, reach.Keys(whole.where("false"), contract().key))) == []


def test_an_hour_that_is_there_twice_in_this_process_is_told_apart(spark, monkeypatch):
    """Keys are compared by Spark: what a time looks like in this process's own zone does not matter."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    hours = [f"2026-10-25 0{hour}:30:00" for hour in range(4)]  # the first two are both 02:30 in Berlin
    whole = spark.createDataFrame(list(enumerate(hours)), "id bigint, at string").selectExpr(
        "id", "CAST(at AS timestamp) AS at", "'x' AS name"
    )
    try:
        for low, high in pairwise(range(4)):
            found = reach.Keys(whole.where(f"id IN ({low}, {high})"), ["at"])
            assert ids(reach.met(contract("at"), whole, found)) == [low, high]
    finally:
        monkeypatch.undo()
        time.tzset()
