"""Clean: bronze records to silver rows; what breaks a rule goes to quarantine, with the rules it broke."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse import naming
from lakehouse.batch import TableWrite
from lakehouse.contracts.model import LINEAGE_COLUMNS, Silver
from lakehouse.contracts.shares import part_of, percent
from lakehouse.jobs import CleanJob, Written
from spark_jobs import tables
from spark_jobs.deliveries import ACTION, ACTIONS, Delivery, delivery
from spark_jobs.feed import write_feed
from spark_jobs.keeping import kept
from spark_jobs.key_versions import OUTCOME, Shape, against, equal, order_of, prefixed
from spark_jobs.parsing import DELETED, REASONS
from spark_jobs.reach import Keys, on_days
from spark_jobs.records import RECORD, of_interval

TOP_REASONS = 3


def clean(spark: SparkSession, job: CleanJob) -> Written:
    """Write what the interval's records change to branches of the dataset's tables."""
    contract = job.contract
    for name, wanted in tables.silver_tables(contract).items():
        tables.ensure(spark, name, wanted)
    rows = kept(_without_good_texts(of_interval(spark, job)))
    rejected = rows.where(F.size(REASONS) > 0)
    rows_in, quarantined = rows.agg(F.count("*"), F.count_if(F.size(REASONS) > 0)).first() or (0, 0)
    if quarantined > part_of(rows_in, contract.most_rejected):
        return Written(writes=(), counts={}, refused=_too_many(contract, rejected, quarantined, rows_in))
    if contract.delivers == "events":
        writes, counts = _write_events(spark, job, rows)
        refused = ""
    else:
        found = delivery(spark, job, rows)
        counts, refused = found.counts, found.refused
        writes = () if refused else write_keyed(spark, job, found)
    quarantine = _write_rejected(spark, job, rejected, quarantined)
    return Written(
        writes=(quarantine, *writes),
        counts={"rows_in": rows_in, **counts, "quarantined": quarantined},
        refused=refused,
    )


def _without_good_texts(rows: DataFrame) -> DataFrame:
    """The text of a record that was read is not needed any more, and most of what would be kept."""
    return rows.withColumn("_raw_payload", F.when(F.size(REASONS) > 0, F.col("_raw_payload")))


def _too_many(contract: Silver, rejected: DataFrame, quarantined: int, rows_in: int) -> str:
    """Why the batch is refused, with the reasons given most often."""
    reasons = rejected.select(F.explode(REASONS).alias("reason")).groupBy("reason").count()
    top = reasons.orderBy(F.desc("count"), "reason").limit(TOP_REASONS).collect()
    told = ", ".join(f"{row['reason']} {row['count']}" for row in top)
    return (
        f"{quarantined} of {rows_in} records are rejected, more than most_rejected: {percent(contract.most_rejected)}; "
        f"most often {told}"
    )


def _write_events(spark: SparkSession, job: CleanJob, rows: DataFrame) -> tuple[tuple[TableWrite, ...], dict[str, int]]:
    """Replace what the interval brought before."""
    accepted = rows.where(F.size(REASONS) == 0)
    events = kept(distinct_events(job.contract, accepted, job.contract.duplicate_by))
    branch = tables.Branch(spark, job, job.contract.dataset)
    columns = tables.silver(job.contract).columns
    inserted = events.count()
    mine = _of_interval(job)
    branch.replace(events.withColumns(_own(job)).select(*columns), mine, inserted)
    return (branch.result(),), {"inserted": inserted, "duplicate": accepted.count() - inserted}


def distinct_events(contract: Silver, accepted: DataFrame, by: Sequence[str]) -> DataFrame:
    """Of events that are equal in some columns the newest, or else the first; all of them where no column is given."""
    if not by:
        return accepted
    order = [*(F.desc(name) for name in contract.newest_by), F.col("_source_file"), F.col("_source_offset")]
    nth = F.row_number().over(Window.partitionBy(*by).orderBy(*order))
    return accepted.withColumn("_nth", nth).where("_nth = 1").drop("_nth")


def write_keyed(spark: SparkSession, job: CleanJob, found: Delivery) -> tuple[TableWrite, ...]:
    """Write what a delivery changes: to the table, its tombstones and its feed."""
    writes = []
    if job.contract.delivers == "changes":
        writes.append(_write_tombstones(spark, job, found))
    if job.contract.change_feed:
        writes.append(write_feed(spark, job, found.changes if found.changed else None))
    branch = tables.Branch(spark, job, job.contract.dataset)
    if found.changed:
        columns = [*job.contract.columns, *LINEAGE_COLUMNS]
        rows = found.changes.withColumn("_batch_id", F.lit(job.batch_id))
        if found.touched:
            branch.merge(rows.select(*columns, ACTION), job.contract.key, on_days(job.contract, found.touched, "t"))
        else:
            branch.append(rows.select(*columns))
    return (*writes, branch.result())


def _write_rejected(spark: SparkSession, job: CleanJob, rejected: DataFrame, count: int) -> TableWrite:
    """Replace what quarantine holds of this interval, but for what people have resolved.

    A record that was given up stays given up. One that was replayed waits again, beside the row that tells of it.
    """
    branch = tables.Branch(spark, job, naming.quarantine_table(job.contract.dataset))
    mine = _of_interval(job)
    rows = rejected.withColumns(_own(job))
    rows = rows.select(*(_column(rows, name, kind) for name, kind in tables.QUARANTINE_COLUMNS.items()))
    if branch.base is not None and count:
        given_up = tables.version(spark, branch.table, branch.base).where(f"{mine} AND _resolution = 'discarded'")
        # At the place of a record that was given up a corrected file may have another one.
        known = prefixed(given_up, "_given_up_", RECORD)
        rows = rows.join(known, equal(RECORD, "_given_up_"), "left_anti")
    branch.replace(rows, f"{mine} AND _resolution IS NULL", count)
    return branch.result()


def _of_interval(job: CleanJob) -> str:
    """The condition that a row was written for the interval, or for one that the schedule once had within it."""
    return tables.among("_interval_start", *sorted({job.interval_start, *job.replaces}))


def _own(job: CleanJob) -> dict[str, SparkColumn]:
    """What every row that a batch writes for its interval says of itself."""
    return {"_batch_id": F.lit(job.batch_id), "_interval_start": F.lit(job.interval_start).cast("timestamp")}


def _column(rows: DataFrame, name: str, kind: str) -> SparkColumn:
    return F.col(name) if name in rows.columns else F.lit(None).cast(kind).alias(name)


def _write_tombstones(spark: SparkSession, job: CleanJob, found: Delivery) -> TableWrite:
    """Remember deletes newer than those remembered, so that an older change that comes later stays deleted."""
    contract = job.contract
    branch = tables.Branch(spark, job, naming.tombstone_table(contract.dataset))
    known = tables.version(spark, branch.table, branch.base)
    parts = [] if found.deletes is None else [_newer_deletes(contract, found.deletes, known)]
    parts += [] if found.restated is None else [_restated_deletes(contract, found.restated, known)]
    if parts:
        own = reduce(lambda one, other: one.unionByName(other), parts).withColumn("_batch_id", F.lit(job.batch_id))
        changes = kept(own.select(*tables.tombstones(contract).columns, ACTION))
        if not changes.isEmpty():
            branch.merge(changes, contract.key)
    return branch.result()


def _newer_deletes(contract: Silver, deletes: DataFrame, known: DataFrame) -> DataFrame:
    content = [name for name in tables.tombstones(contract).columns if name != "_batch_id"]
    shape = Shape(contract.key, content, order_of(contract.newest_by))
    mine = deletes.select(*content).withColumn(DELETED, F.lit(False))
    remembered = Keys(mine, contract.key).among(known)
    decided = against(mine, remembered, known.limit(0), shape).where(F.col(OUTCOME).isin("inserted", "updated"))
    action = F.when(F.col(OUTCOME) == "inserted", ACTIONS["inserted"]).otherwise(ACTIONS["updated"])
    return decided.withColumn(ACTION, action).select(*content, ACTION)


def _restated_deletes(contract: Silver, restated: DataFrame, known: DataFrame) -> DataFrame:
    """Where a corrected file had its say: the newest version's delete, or none, whatever is remembered."""
    key = list(contract.key)
    remembered = known.select(*key).withColumn("_remembered", F.lit(True))
    both = restated.join(remembered, key, "left")
    gone, held = F.coalesce(F.col(DELETED), F.lit(False)), F.coalesce(F.col("_remembered"), F.lit(False))
    action = F.when(gone & held, "update").when(gone, "insert").when(held, "delete")
    content = [name for name in tables.tombstones(contract).columns if name != "_batch_id"]
    return both.withColumn(ACTION, action).where(F.col(ACTION).isNotNull()).select(*content, ACTION)
