"""The change feed of a dataset: every change, before and after, append-only."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import naming
from lakehouse.batch import TableWrite
from lakehouse.jobs import CleanJob
from spark_jobs import tables
from spark_jobs.deliveries import ACTION
from spark_jobs.key_versions import TARGET

# The change that is written for an action, and the prefix of the columns it is taken from.
_WRITTEN = {
    "insert": (("insert", ""),),
    "update": (("update_before", TARGET), ("update_after", "")),
    "delete": (("delete", TARGET),),
}


def write_feed(spark: SparkSession, job: CleanJob, changes: DataFrame | None) -> TableWrite:
    """Add the batch's changes; what a batch left that was never published is taken out."""
    branch = tables.Branch(spark, job, naming.feed_table(job.contract.dataset))
    stale = tables.among("_batch_id", *job.unpublished) if job.unpublished else "false"
    if job.unpublished and not tables.version(spark, branch.table, branch.base).where(stale).isEmpty():
        branch.delete(stale)
    if branch.base is None and job.bases[job.contract.dataset] is not None:
        branch.append(_beginning(spark, job))
    if changes is not None:
        branch.append(_of_batch(job, changes))
    return branch.result()


def _of_batch(job: CleanJob, changes: DataFrame) -> DataFrame:
    names = list(job.contract.columns)
    entries = [
        F.struct(F.lit(word).alias("_change"), *(F.col(prefix + name).alias(name) for name in names))
        for parts in _WRITTEN.values()
        for word, prefix in parts
    ]
    words = [(action, word) for action, parts in _WRITTEN.items() for word, _ in parts]
    chosen = F.array_compact(
        F.array(*(F.when(F.col(ACTION) == action, entry) for (action, _), entry in zip(words, entries, strict=True)))
    )
    rows = changes.select(F.inline(chosen))
    return _stamped(rows, F.lit(job.planned_at).cast("timestamp"), F.lit(job.batch_id), job)


def _beginning(spark: SparkSession, job: CleanJob) -> DataFrame:
    """The rows of a table that had no feed until now, as inserts of the batches that wrote them."""
    rows = tables.version(spark, job.contract.dataset, job.bases[job.contract.dataset])
    before = F.lit(job.planned_at - timedelta(microseconds=1)).cast("timestamp")
    return _stamped(rows.withColumn("_change", F.lit("insert")), before, F.col("_batch_id"), job)


def _stamped(rows: DataFrame, at: SparkColumn, batch: SparkColumn, job: CleanJob) -> DataFrame:
    return rows.withColumns({"_changed_at": at, "_batch_id": batch}).select(*tables.feed(job.contract).columns)
