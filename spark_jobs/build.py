"""Build: a gold table from its SQL, only the days whose input changed."""

from __future__ import annotations

from datetime import date, timedelta
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.jobs import BuildJob, Written
from lakehouse.naming import dag_id
from spark_jobs import tables


def build(spark: SparkSession, job: BuildJob) -> Written:
    """Replace the days to build with what the query gives for them."""
    contract = job.contract
    tables.ensure(spark, contract.dataset, tables.gold(contract))
    rows_in = sum(_input_view(spark, job, name).count() for name in contract.reads)
    result = spark.sql(contract.sql)
    rows = result.select(*(F.col(name).cast(column.type).alias(name) for name, column in contract.columns.items()))
    branch = tables.Branch(spark, job, contract.dataset)
    where = F.lit(True)
    if job.days is not None:
        (own,) = contract.rebuild
        where = F.col(own).isin(list(job.days))
        rows = rows.where(where)
    branch.overwrite(rows, where)
    write = branch.result()
    rows_out = tables.version(spark, contract.dataset, write.head).where(where).count()
    return Written(writes=(write,), counts={"rows_in": rows_in, "rows_out": rows_out})


def _input_view(spark: SparkSession, job: BuildJob, dataset: str) -> DataFrame:
    """The input as the view that the query reads: at its pinned snapshot, cut to the days to build."""
    rows = tables.version(spark, dataset, job.input_snapshots[dataset])
    source, _, column = next(iter(job.contract.rebuild.values()), "").rpartition(".")
    if job.days is not None and source == dataset:
        rows = rows.where(reduce(or_, (_on(column, day) for day in job.days), F.lit(False)))
    rows.createOrReplaceTempView(dag_id(dataset))
    return rows


def _on(column: str, day: date) -> Column:
    return (F.col(column) >= F.lit(day)) & (F.col(column) < F.lit(day + timedelta(1)))
