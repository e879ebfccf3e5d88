"""Replay: rejected records through the contract's rules once more; or a mark that they are given up."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import naming
from lakehouse.batch import TableWrite
from lakehouse.contracts.model import Silver
from lakehouse.jobs import ReplayJob, Written
from spark_jobs import tables
from spark_jobs.clean import distinct_events, write_keyed
from spark_jobs.deliveries import ACTION, delivery
from spark_jobs.keeping import kept
from spark_jobs.key_versions import PLACE, TARGET, equal, newer, prefixed
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
    """Add the events that are not there yet, each to the interval in which it came; of equal ones the newest counts."""
    branch, columns = tables.Branch(spark, job, job.contract.dataset), tables.silver(job.contract).columns
    there = tables.version(spark, branch.table, branch.base)
    known = ["_interval_start", *(job.contract.duplicate_by or PLACE)]
    accepted = rows.where(F.size(REASONS) == 0).withColumn("_batch_id", F.lit(job.batch_id))
    own = kept(_decided(job.contract, distinct_events(job.contract, accepted, by=known), there, known))
    found = {row[ACTION]: row["count"] for row in own.groupBy(ACTION).count().collect()}
    if found.get("update"):
        branch.merge(own.select(*columns, ACTION), known)
    elif found.get("insert"):
        branch.append(own.where(F.col(ACTION) == "insert").select(*columns))
    counts = {"inserted": found.get("insert", 0), "updated": found.get("update", 0)}
    return (branch.result(),), {**counts, "duplicate": accepted.count() - sum(counts.values())}


def _decided(contract: Silver, events: DataFrame, there: DataFrame, known: list[str]) -> DataFrame:
    """Events with what they do to the table: they are put in, or in the place of one that they would have won over."""
    order = [*contract.newest_by, *PLACE]
    held = prefixed(there, TARGET, (*known, *order))
    both = events.join(held, [F.col(name) == F.col(TARGET + name) for name in known], "left")
    mine, theirs = ([F.col(prefix + name) for name in contract.newest_by] for prefix in ("", TARGET))
    place, other = (F.struct(*(F.col(prefix + name) for name in PLACE)) for prefix in ("", TARGET))
    alike = equal(contract.newest_by, TARGET) if contract.newest_by else F.lit(True)
    wins = (newer(mine, theirs) if contract.newest_by else F.lit(False)) | (alike & (place < other))
    action = F.when(F.col(TARGET + PLACE[0]).isNull(), "insert").when(wins, "update")
    return both.withColumn(ACTION, F.coalesce(action, F.lit("none")))
