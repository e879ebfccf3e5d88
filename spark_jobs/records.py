"""The records that a clean job looks at: of its interval, or of the table's whole history."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import naming
from lakehouse.batch import Corrections
from lakehouse.jobs import CleanJob
from spark_jobs import tables
from spark_jobs.key_versions import PLACE
from spark_jobs.parsing import REASONS, parsed

# What a record is known by: at the same place a corrected file may have another one.
RECORD = [*PLACE, "_raw_payload"]
_PAIR = ["_batch_id", "_source_file"]
# Reading a record takes long beside moving it: a batch that came in one file is shared out in parts of so many.
ROWS_PER_PART, MOST_PARTS = 25_000, 1_000


def of_interval(spark: SparkSession, job: CleanJob) -> DataFrame:
    """The interval's records, parsed; of a file that was corrected, the newest version only."""
    bronze = tables.version(spark, job.contract.reads, job.input_snapshot)
    batches = F.col("_batch_id").isin(*job.input_batches) if job.input_batches else F.lit(False)
    mine = bronze.where(F.col("_ingestion_date").isin(job.interval.days) & batches)
    parts = min(job.input_rows // ROWS_PER_PART, MOST_PARTS)
    shared = mine.repartition(parts, "_source_file", "_source_offset") if parts > 1 else mine
    ended = shared.withColumn("_interval_end", F.lit(job.interval_end).cast("timestamp"))
    return _parsed(spark, job, ended, job.corrections)


def of_history(spark: SparkSession, job: CleanJob) -> DataFrame:
    """Every record that the table is made from and that keeps the contract, whenever it came."""
    bronze = tables.version(spark, job.contract.reads, job.input_snapshot)
    origins = [(origin.batch_id, origin.interval_end) for origin in job.history]
    ends = spark.createDataFrame(origins, "_batch_id string, _interval_end timestamp")
    ended = bronze.join(F.broadcast(ends), "_batch_id")
    return _parsed(spark, job, ended, job.all_corrections).where(F.size(REASONS) == 0)


def _parsed(spark: SparkSession, job: CleanJob, rows: DataFrame, corrections: Corrections) -> DataFrame:
    # A correction is late by nature: what it mends is older than itself.
    exempt = _marked(spark, rows, corrections.replacing, "_exempt") if job.contract.late_data else rows
    # By the names with which they came: an heir may have had a version of its own, replaced since, in the same batch.
    counting = _marked(spark, exempt, corrections.dropped, "_dropped").where("NOT _dropped").drop("_dropped")
    current = _inherited(spark, counting, corrections.inherited)
    if not job.contract.late_data:
        return parsed(current, job.contract).drop("_interval_end", "_came_as")
    late_before = F.when(~F.col("_exempt"), F.col("_interval_end") - F.lit(job.contract.late_data))
    judged = parsed(_with_replayed(spark, job, current), job.contract, late_before)
    return judged.drop("_interval_end", "_came_as", "_exempt")


def _with_replayed(spark: SparkSession, job: CleanJob, rows: DataFrame) -> DataFrame:
    """Rows of which those are exempt, too, that somebody has replayed: late as they are, the table has them.

    Quarantine knows a record by the name that its file had then: the one it came with, or that of an heir.
    """
    if not job.replays:
        return rows
    quarantine = naming.quarantine_table(job.contract.dataset)
    replayed = tables.version(spark, quarantine, job.bases[quarantine]).where("_resolution = 'replayed'")
    content = [name for name in RECORD if name != "_source_file"]
    known = replayed.groupBy(*content).agg(F.collect_set("_source_file").alias("_known"))
    named = F.arrays_overlap("_known", F.array("_source_file", "_came_as"))
    both = rows.join(known, content, "left").withColumn("_exempt", F.col("_exempt") | F.coalesce(named, F.lit(False)))
    return both.drop("_known")


def _inherited(spark: SparkSession, rows: DataFrame, heirs: Sequence[tuple[str, str, str]]) -> DataFrame:
    """Rows under the name of the file that has them now; `_came_as` is the one with which they came."""
    came = rows.withColumn("_came_as", F.col("_source_file"))
    if not heirs:
        return came
    known = spark.createDataFrame(list(heirs), "_batch_id string, _source_file string, _heir string")
    named = came.join(F.broadcast(known), _PAIR, "left")
    return named.withColumn("_source_file", F.coalesce("_heir", "_source_file")).drop("_heir")


def _marked(spark: SparkSession, rows: DataFrame, pairs: Sequence[tuple[str, str]], name: str) -> DataFrame:
    """Rows with a column that says whether their batch and file are among the pairs."""
    if not pairs:
        return rows.withColumn(name, F.lit(False))
    known = spark.createDataFrame(list(pairs), "_batch_id string, _source_file string").withColumn(name, F.lit(True))
    return rows.join(F.broadcast(known), _PAIR, "left").withColumn(name, F.coalesce(F.col(name), F.lit(False)))
