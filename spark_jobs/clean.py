"""Clean: bronze records to silver rows; what breaks a rule goes to quarantine, with the rules it broke."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import naming
from lakehouse.batch import TableWrite
from lakehouse.contracts.model import LINEAGE_COLUMNS, Silver, partition_column
from lakehouse.jobs import CleanJob, Written
from lakehouse.naming import quoted
from spark_jobs import tables
from spark_jobs.parsing import DELETED, REASONS, parsed
from spark_jobs.versions import OUTCOME, TARGET, Shape, against, order_of, ranked

ACTIONS = {"inserted": "insert", "updated": "update", "deleted": "delete"}


def clean(spark: SparkSession, job: CleanJob) -> Written:
    """Write what the interval's bronze batches change to branches of silver, quarantine and tombstones."""
    contract = job.contract
    silver, quarantine, gone = naming.tables_of(contract.dataset)
    tables.ensure(spark, silver, tables.silver(contract))
    tables.ensure(spark, quarantine, tables.quarantine(contract))
    tables.ensure(spark, gone, tables.tombstones(contract))

    rows = parsed(_input(spark, job), contract, job.interval_end).persist()
    rejected = rows.where(F.size(REASONS) > 0)
    judged = _judged(spark, job, rows.where(F.size(REASONS) == 0)).persist()
    counts = _counts(rejected, judged)

    writes = (
        _write_rejected(spark, job, rejected, counts["quarantined"]),
        _write_tombstones(spark, job, judged),
        _write_changes(spark, job, judged, counts),
    )
    return Written(writes=writes, counts=counts)


def _input(spark: SparkSession, job: CleanJob) -> DataFrame:
    bronze = tables.version(spark, job.contract.reads, job.input_snapshot)
    in_days = F.col("_ingestion_date").isin(job.interval.days)
    return bronze.where(in_days & F.col("_batch_id").isin(list(job.input_batches)))


def _judged(spark: SparkSession, job: CleanJob, accepted: DataFrame) -> DataFrame:
    """Accepted rows, each with the outcome it has in this batch."""
    contract = job.contract
    target = tables.version(spark, contract.dataset, job.bases[contract.dataset])
    gone = naming.tombstone_table(contract.dataset)
    tombstones = tables.version(spark, gone, job.bases[gone])
    rows = ranked(accepted, contract.key, contract.newest_by).withColumnRenamed(OUTCOME, "_in_batch")
    shape = Shape(contract.key, list(contract.columns), order_of(contract.newest_by))
    decided = against(rows, target, tombstones, shape)
    # One pass for all: what a newer version in the same batch has decided already stays decided.
    outcome = F.when(F.col("_in_batch") == "newest", F.col(OUTCOME)).otherwise(F.col("_in_batch"))
    return decided.withColumn(OUTCOME, outcome)


def _counts(rejected: DataFrame, judged: DataFrame) -> dict[str, int]:
    """The batch's balance: rows in = the sum of all that became of them."""
    names = ("inserted", "updated", "deleted", "unchanged", "superseded", "duplicate")
    found = Counter({row[OUTCOME]: row["count"] for row in judged.groupBy(OUTCOME).count().collect()})
    counts = {name: found[name] for name in names} | {"quarantined": rejected.count()}
    return {"rows_in": sum(counts.values()), **counts}


def _write_rejected(spark: SparkSession, job: CleanJob, rejected: DataFrame, count: int) -> TableWrite:
    """Replace what quarantine holds of this interval."""
    table = naming.quarantine_table(job.contract.dataset)
    branch = tables.Branch(spark, job, table)
    mine = F.col("_interval_start") == F.lit(job.interval_start).cast("timestamp")
    if count or not tables.version(spark, table, branch.base).where(mine).isEmpty():
        rows = rejected.withColumn("_interval_start", F.lit(job.interval_start).cast("timestamp"))
        rows = rows.withColumn("_batch_id", F.lit(job.batch_id))
        branch.overwrite(rows.select(*tables.QUARANTINE_COLUMNS), mine)
    return branch.result()


def _write_tombstones(spark: SparkSession, job: CleanJob, judged: DataFrame) -> TableWrite:
    """Remember deletes newer than those remembered, so that an older change that comes later stays deleted."""
    table = naming.tombstone_table(job.contract.dataset)
    branch = tables.Branch(spark, job, table)
    known = tables.version(spark, table, branch.base)
    deletes = judged.where(F.col(DELETED) & F.col(OUTCOME).isin("deleted", "unchanged"))
    columns = list(tables.tombstones(job.contract).columns)
    mine = deletes.withColumn("_batch_id", F.lit(job.batch_id)).select(*columns)
    content = [c for c in columns if c != "_batch_id"]
    shape = Shape(job.contract.key, content, order_of(job.contract.newest_by))
    decided = against(mine.withColumn(DELETED, F.lit(False)), known, known.limit(0), shape)
    changes = decided.where(F.col(OUTCOME).isin("inserted", "updated"))
    if not changes.isEmpty():
        branch.merge(_with_actions(changes).select(*columns, "_action"), job.contract.key)
    return branch.result()


def _write_changes(spark: SparkSession, job: CleanJob, judged: DataFrame, counts: dict[str, int]) -> TableWrite:
    """Merge the rows whose content changes; nothing is written where none does."""
    branch = tables.Branch(spark, job, job.contract.dataset)
    if any(counts[outcome] for outcome in ACTIONS):
        columns = [*job.contract.columns, *LINEAGE_COLUMNS]
        changes = _with_actions(judged.where(F.col(OUTCOME).isin(*ACTIONS)))
        changes = changes.withColumn("_batch_id", F.lit(job.batch_id))
        bounds = _bounds(job.contract, changes)
        branch.merge(changes.select(*columns, "_action"), job.contract.key, bounds)
    return branch.result()


def _with_actions(changes: DataFrame) -> DataFrame:
    action = F.create_map(*(F.lit(word) for pair in ACTIONS.items() for word in pair))[F.col(OUTCOME)]
    return changes.withColumn("_action", action)


def _bounds(contract: Silver, changes: DataFrame) -> str:
    """The range of the partition column in which the rows to change lie, as a condition on the target."""
    columns = [partition_column(field) for field in contract.partition_by]
    column = next((c for c in columns if c and contract.columns[c].type in ("timestamp", "date")), None)
    if column is None:
        return ""
    touched = F.col(TARGET + column)
    lowest, highest = changes.agg(F.min(touched).cast("date"), F.max(touched).cast("date")).first() or (None, None)
    if lowest is None or highest is None:
        return "false"  # only inserts
    name = quoted(column)
    return f"t.{name} >= DATE'{lowest.isoformat()}' AND t.{name} < DATE'{(highest + timedelta(1)).isoformat()}'"
