"""Ingest: landing files to bronze, as they came."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.batch import TakenFile
from lakehouse.contracts.model import BRONZE_COLUMNS
from lakehouse.jobs import IngestJob, Written
from spark_jobs import tables
from spark_jobs.keeping import kept
from spark_jobs.readers import FILES, RECORDS, reader
from spark_jobs.readers.delimited import WHOLE

BYTES_PER_READER = 16 << 20
FILES_PER_READER = 2_500


def ingest(spark: SparkSession, job: IngestJob) -> Written:
    """Append every record of the job's files to a branch of the bronze table; bytes that came before stay out."""
    table = job.contract.dataset
    tables.ensure(spark, table, tables.bronze(job.contract))
    branch = tables.Branch(spark, job, table)
    if not job.files:
        return Written(writes=(branch.result(),), counts={"rows_in": 0})
    found = kept(_read(spark, job))
    taken = _taken(job, found)
    rows = sum(file.rows for file in taken)
    if rows:
        branch.append(_with_origin(_without_repeats(found, taken), job))
    repeats = sum(bool(file.same_as) for file in taken)
    counts = {"rows_in": rows, "inserted": rows, "files": len(taken), "repeated_files": repeats}
    return Written(writes=(branch.result(),), counts=counts, files=taken)


def _read(spark: SparkSession, job: IngestJob) -> DataFrame:
    """The records of all files and, behind those of each file, a row with its hash."""
    files = spark.createDataFrame([(f.uri, f.etag, f.bytes) for f in job.files], FILES)
    return files.repartition(_parts(job)).mapInArrow(reader(job.contract.source), RECORDS)


def _parts(job: IngestJob) -> int:
    """Enough partitions to share bytes and files out, and no reader process for a handful of them."""
    wanted = max(sum(f.bytes for f in job.files) // BYTES_PER_READER, len(job.files) // FILES_PER_READER)
    return max(1, min(len(job.files), wanted))


def _taken(job: IngestJob, found: DataFrame) -> tuple[TakenFile, ...]:
    """What each file brought; the same bytes count once: for the file in force, or else the first by name."""
    # A record that is kept whole has lost nothing, though nobody can read it.
    lost = F.count(F.when(~F.col("_malformed").rlike(WHOLE), True))
    sums = (F.max("_sha256").alias("sha256"), (F.count("*") - 1).alias("rows"), lost.alias("malformed"))
    read = found.groupBy("_source_file").agg(*sums)
    by_uri = {row["_source_file"]: row for row in read.collect()}
    in_force, taken = dict(job.known), []
    for file in sorted(job.files, key=lambda one: one.uri):
        row = by_uri[file.uri]
        same_as = in_force.get(row["sha256"], "")
        found_as = {"sha256": row["sha256"], "rows": 0 if same_as else row["rows"], "same_as": same_as}
        taken.append(TakenFile(**file.model_dump(), **found_as, malformed=row["malformed"]))
        in_force.setdefault(row["sha256"], file.uri)
    return tuple(taken)


def _without_repeats(found: DataFrame, taken: tuple[TakenFile, ...]) -> DataFrame:
    records = found.where(F.col("_source_offset") >= 0)
    repeated = [file.uri for file in taken if file.same_as]
    return records.where(~F.col("_source_file").isin(repeated)) if repeated else records


def _with_origin(rows: DataFrame, job: IngestJob) -> DataFrame:
    """Each record with when, whence and by which batch it came."""
    origin = {
        "_ingested_at": F.lit(job.ingested_at).cast("timestamp"),
        "_ingestion_date": F.lit(job.interval.start.date()),
        "_source": F.lit(job.contract.source.kind),
        "_batch_id": F.lit(job.batch_id),
    }
    return rows.withColumns(origin).select(*BRONZE_COLUMNS)
