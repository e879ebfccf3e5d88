"""Ingest: landing files to bronze, raw as they came."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.jobs import IngestJob, Written
from spark_jobs import tables
from spark_jobs.readers import RECORDS, records

BYTES_PER_READER = 16 << 20


def with_origin(rows: DataFrame, job: IngestJob) -> DataFrame:
    """Each record with when, whence and by which batch it came."""
    return rows.select(
        "_raw_payload",
        F.lit(job.ingested_at).cast("timestamp").alias("_ingested_at"),
        F.lit(job.interval.start.date()).alias("_ingestion_date"),
        F.lit(job.contract.source.kind).alias("_source"),
        "_source_file",
        "_source_offset",
        F.lit(job.batch_id).alias("_batch_id"),
    )


def _parts(job: IngestJob) -> int:
    """Enough partitions to share the bytes out, and no reader process for a handful of them."""
    return max(1, min(len(job.files), sum(f.bytes for f in job.files) // BYTES_PER_READER))


def ingest(spark: SparkSession, job: IngestJob) -> Written:
    """Append every record of the job's files to a branch of the bronze table."""
    table = job.contract.dataset
    tables.ensure(spark, table, tables.bronze(job.contract))
    branch = tables.Branch(spark, job, table)
    if not job.files:
        return Written(writes=(branch.result(),), counts={"rows_in": 0})
    files = spark.createDataFrame([(f.uri, f.etag) for f in job.files], "uri string, etag string")
    branch.append(with_origin(files.repartition(_parts(job)).mapInArrow(records, RECORDS), job))
    write = branch.result()
    count = tables.version(spark, table, write.head).where(F.col("_batch_id") == job.batch_id).count()
    return Written(writes=(write,), counts={"rows_in": count, "inserted": count, "files": len(job.files)})
