"""The change feed of a dataset: every change, before and after, append-only."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse import naming
from lakehouse.batch import TableWrite
from lakehouse.jobs import CleanJob
from spark_jobs import tables
from spark_jobs.deliveries import ACTION
from spark_jobs.key_versions import TARGET, equal, prefixed

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
    if job.bases[job.contract.dataset] is not None and (branch.base is None or job.feed_lags):
        branch.append(_missed(spark, job, tables.version(spark, branch.table, branch.base).where(f"NOT ({stale})")))
    if changes is not None:
        branch.append(_of_batch(job, changes))
    return branch.result()


def _of_batch(job: CleanJob, changes: DataFrame) -> DataFrame:
    return _stamped(_entries(job, changes), F.lit(job.planned_at).cast("timestamp"), F.lit(job.batch_id), job)


def _entries(job: CleanJob, changes: DataFrame, *kept: str) -> DataFrame:
    """A row for each change, two for an update, with the columns that are kept beside them."""
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
    return changes.select(*kept, F.inline(chosen))


def _missed(spark: SparkSession, job: CleanJob, feed: DataFrame) -> DataFrame:
    """What became of the table while it had no feed, as changes of the batches that wrote its rows."""
    names, key = list(job.contract.columns), list(job.contract.key)
    table = tables.version(spark, job.contract.dataset, job.bases[job.contract.dataset]).select(*names, "_batch_id")
    told = prefixed(_led_to(feed, key), TARGET, names)
    both = table.join(told, [F.col(name) == F.col(TARGET + name) for name in key], "full")
    held, known = F.col(key[0]).isNotNull(), F.col(TARGET + key[0]).isNotNull()
    action = F.when(~known, "insert").when(~held, "delete").when(~equal(names, TARGET), "update")
    owner = F.coalesce(F.col("_batch_id"), F.lit(job.batch_id))
    changed = both.withColumns({ACTION: action, "_batch_id": owner}).where(F.col(ACTION).isNotNull())
    before = F.lit(job.planned_at - timedelta(microseconds=1)).cast("timestamp")
    return _stamped(_entries(job, changed, "_batch_id"), before, F.col("_batch_id"), job)


def _led_to(feed: DataFrame, key: list[str]) -> DataFrame:
    """The rows that a feed leads to, replayed in its order."""
    there = F.col("_change").isin("insert", "update_after")
    newest = Window.partitionBy(*key).orderBy(F.desc("_changed_at"), F.desc(there))
    return feed.withColumn("_nth", F.row_number().over(newest)).where((F.col("_nth") == 1) & there)


def _stamped(rows: DataFrame, at: SparkColumn, batch: SparkColumn, job: CleanJob) -> DataFrame:
    return rows.withColumns({"_changed_at": at, "_batch_id": batch}).select(*tables.feed(job.contract).columns)
