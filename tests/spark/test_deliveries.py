"""What a delivery does to a table, as far as it needs none."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from spark_jobs import deliveries, reach
from spark_jobs.keeping import keeping
from spark_jobs.parsing import CONTENT
from tests.spark.raw_records import silver

VERSIONS = [(key, f"v{at}", at, "a.json") for key in range(5) for at in range(3)]


@pytest.fixture(autouse=True)
def _kept() -> Iterator[None]:
    with keeping():
        yield


@pytest.mark.parametrize("most_keys", [3, 2])
def test_the_newest_versions_of_many_keys_are_found_without_sending_them_to_every_reader(spark, monkeypatch, most_keys):
    monkeypatch.setattr(reach, "MOST_KEYS", most_keys)
    history = spark.createDataFrame(VERSIONS, "id bigint, name string, _source_offset bigint, _source_file string")
    suspects = spark.createDataFrame([(1,), (3,), (7,)], "id bigint")
    newest = deliveries._newest(silver({}), history.withColumn(CONTENT, F.xxhash64("name")), suspects)
    assert sorted((row["id"], row["name"]) for row in newest.collect()) == [(1, "v2"), (3, "v2")]
    broadcast = "strategy=broadcast" in newest._jdf.queryExecution().analyzed().toString()
    assert broadcast == (most_keys == 3)


@pytest.mark.parametrize(("left", "doubtful"), [((1, 2), True), ((2, 2), True), ((2, 3), False), ((3, 1), False)])
def test_a_version_is_no_older_than_the_row_by_every_column_of_their_order(spark, left, doubtful):
    contract = silver({"at": {"type": "bigint", "from": "at"}, "rev": {"type": "bigint", "from": "rev"}})
    job = SimpleNamespace(contract=contract.model_copy(update={"newest_by": ("at", "rev")}), reread=False, gone_until=9)
    found = spark.createDataFrame(
        [(*left, False, 2, 3, "b.json")],
        "at bigint, rev bigint, _delete boolean, _target_at bigint, _target_rev bigint, _target__source_file string",
    )
    assert found.select(deliveries._doubtful(job)).first()[0] is doubtful
