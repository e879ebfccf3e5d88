"""Replay: rejected records through the contract's rules once more; or a mark that they are given up."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import naming
from lakehouse.batch import TableWrite
from lakehouse.jobs import ReplayJob, Written
from spark_jobs import tables
from spark_jobs.clean import distinct_events, write_keyed
from spark_jobs.deliveries import delivery
from spark_jobs.keeping import kept
from spark_jobs.key_versions import PLACE
from spark_jobs.parsing import REASONS, parsed


@dataclass(frozen=True)
class Outcome:
    """What became of the chosen records: the tables written, the counts, and the records as quarantine keeps them."""

    writes: tuple[TableWrite, ...]
    counts: dict[str, int]
    kept: DataFrame


def replay(spark: SparkSession, job: ReplayJob) -> Written:
    """Bring the chosen records into the table if they keep the rules now, and mark them."""
    for name, wanted in tables.silver_tables(job.contract).items():
        tables.ensure(spark, name, wanted)
    quarantine = tables.Branch(spark, job, naming.quarantine_table(job.contract.dataset))
    chosen = tables.version(spark, quarantine.table, quarantine.base).where(_chosen(job))
    done = (_given_up if job.chosen.resolution == "discarded" else _tried_again)(spark, job, chosen)
    if done.counts["rows_in"]:
        quarantine.replace(done.kept.select(*tables.QUARANTINE_COLUMNS), _chosen(job), done.counts["rows_in"])
    return Written(writes=(quarantine.result(), *done.writes), counts=done.counts)


def _given_up(spark: SparkSession, job: ReplayJob, chosen: DataFrame) -> Outcome:
    rows_in = chosen.count()
    counts = {"rows_in": rows_in, "quarantined": rows_in}
    return Outcome((_untouched(spark, job),), counts, _marked(job, chosen, F.lit(True)))


def _tried_again(spark: SparkSession, job: ReplayJob, chosen: DataFrame) -> Outcome:
    """Records that keep the rules now are resolved; the others are told what they break now."""
    rows = kept(parsed(chosen.select(*tables.ARRIVAL, "_interval_start"), job.contract))
    writes, counts = _write(spark, job, rows)
    place = [*PLACE, "_interval_start"]
    now = rows.select(*place, F.col(REASONS).alias("_reasons_now"))
    both = chosen.join(now, place)
    mended = F.size("_reasons_now") == 0
    told = both.withColumn(REASONS, F.when(mended, F.col(REASONS)).otherwise(F.col("_reasons_now")))
    return Outcome(writes, counts, _marked(job, told, mended))


def _chosen(job: ReplayJob) -> str:
    """The records that are meant, as an SQL condition."""
    conditions = ["_resolution IS NULL"]
    if job.chosen.reason:
        conditions.append(f"array_contains(_reasons, {tables.text(job.chosen.reason)})")
    if job.chosen.interval_start:
        conditions.append(tables.among("_interval_start", job.chosen.interval_start))
    return " AND ".join(conditions)


def _marked(job: ReplayJob, rows: DataFrame, which: SparkColumn) -> DataFrame:
    """Rows that say what was decided about them, where `which` holds."""
    chosen = job.chosen
    told = {
        "_resolution": F.lit(chosen.resolution),
        "_resolved_at": F.lit(job.planned_at).cast("timestamp"),
        "_resolved_by": F.lit(chosen.by),
        "_resolved_why": F.lit(chosen.why),
    }
    return rows.withColumns({name: F.when(which, value) for name, value in told.items()})


def _untouched(spark: SparkSession, job: ReplayJob) -> TableWrite:
    return tables.Branch(spark, job, job.contract.dataset).result()


def _write(spark: SparkSession, job: ReplayJob, rows: DataFrame) -> tuple[tuple[TableWrite, ...], dict[str, int]]:
    rows_in, quarantined = rows.count(), rows.where(F.size(REASONS) > 0).count()
    if not rows_in:
        return (_untouched(spark, job),), {"rows_in": 0}
    if job.contract.delivers == "events":
        writes, counts = _write_events(spark, job, rows)
    else:
        found = delivery(spark, job, rows)
        writes, counts = write_keyed(spark, job, found), found.counts
    return writes, {"rows_in": rows_in, **counts, "quarantined": quarantined}


def _write_events(
    spark: SparkSession, job: ReplayJob, rows: DataFrame
) -> tuple[tuple[TableWrite, ...], dict[str, int]]:
    """Add the events that are not there yet, each to the interval in which it came."""
    branch = tables.Branch(spark, job, job.contract.dataset)
    there = tables.version(spark, branch.table, branch.base)
    known = ["_interval_start", *(job.contract.duplicate_by or PLACE)]
    accepted = rows.where(F.size(REASONS) == 0)
    fresh = kept(distinct_events(job.contract, accepted, by=known).join(there.select(*known), known, "left_anti"))
    inserted = fresh.count()
    if inserted:
        own = fresh.withColumn("_batch_id", F.lit(job.batch_id))
        branch.append(own.select(*tables.silver(job.contract).columns))
    return (branch.result(),), {"inserted": inserted, "duplicate": accepted.count() - inserted}
