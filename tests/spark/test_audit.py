"""What an audit measures, on frames."""

from __future__ import annotations

import math

import pytest
from pyspark.sql import functions as F

from lakehouse.gates.checks import Broken, Outside
from spark_jobs.audit import _broken, _value


@pytest.mark.parametrize("ends", [("0", None), (None, "10"), ("0", "10")])
def test_what_is_no_number_lies_in_no_range(spark, ends):
    rows = spark.createDataFrame([(5.0,), (math.nan,), (None,)], "ratio double")
    outside = Outside(column="ratio", type="double", lowest=ends[0], highest=ends[1])
    assert rows.where(_broken(outside)).count() == 1


def test_a_row_of_another_batch_for_which_a_rule_cannot_be_computed_fails_nothing(spark):
    rows = spark.createDataFrame([(0, "old"), (4, "new"), (1, "new")], "quantity int, _batch_id string")
    broken = Broken(condition="1 / quantity < 0.5")
    assert rows.agg(_value(broken, F.col("_batch_id") == "new")).first()[0] == 1
