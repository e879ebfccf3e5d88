"""Let go: rows that are past their time, on a branch that is compared with main before it is published."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakehouse import naming
from lakehouse.jobs import LetGoJob, Written
from spark_jobs import tables


def let_go(spark: SparkSession, job: LetGoJob) -> Written:
    """Take whole partitions out of the table, on a branch."""
    branch = tables.Branch(spark, job, job.table)
    known = (naming.BATCH, naming.INPUTS, naming.CONTRACT, naming.CODE, naming.ROWS_FROM)
    try:
        for name in set(known) - job.provenance.keys():  # no batch makes this version
            spark.conf.unset(f"{tables.SUMMARY}{name}")
        branch.delete(job.where)
    finally:
        for name in job.provenance:
            spark.conf.unset(f"{tables.SUMMARY}{name}")
    return Written(writes=(branch.result(),), counts={})
