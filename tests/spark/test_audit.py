"""What an audit measures, on frames."""

from __future__ import annotations

import math

import pytest

from lakehouse.gates.checks import Outside
from spark_jobs.audit import _broken


@pytest.mark.parametrize("ends", [("0", None), (None, "10"), ("0", "10")])
def test_what_is_no_number_lies_in_no_range(spark, ends):
    rows = spark.createDataFrame([(5.0,), (math.nan,), (None,)], "ratio double")
    outside = Outside(column="ratio", type="double", lowest=ends[0], highest=ends[1])
    assert rows.where(_broken(outside)).count() == 1
