"""What an interval's records do to a keyed table, by what they are: changes, or the whole table as it is now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import naming
from lakehouse.contracts.model import Silver
from lakehouse.contracts.shares import part_of, percent
from lakehouse.jobs import CleanJob
from spark_jobs import tables
from spark_jobs.keeping import kept
from spark_jobs.key_versions import OUTCOME, PLACE, TARGET, Shape, against, equal, newer, order_of, prefixed, ranked
from spark_jobs.parsing import CONTENT, DELETED, MALFORMED, REASONS
from spark_jobs.reach import Days, Keys, met
from spark_jobs.records import of_history

ACTION = "_action"
# A row moves when another file than the one it came from holds it now, word for word.
ACTIONS = {"inserted": "insert", "updated": "update", "deleted": "delete", "moved": "move"}
_MEETING = ("updated", "deleted", "moved")  # a row that is there
_SHOWN = 3
OUTCOMES = ("inserted", "updated", "deleted", "unchanged", "superseded", "duplicate")


@dataclass(frozen=True)
class Delivery:
    """What is to be written: each change with its action and the row it meets, and what became of the records.

    `touched` are the days, of those that the table is partitioned by, on which rows are that change: none where there
    are only new rows. `deletes` are to be remembered; of the keys in `restated` only what is found there.
    """

    changes: DataFrame
    counts: dict[str, int]
    touched: Days = frozenset()
    deletes: DataFrame | None = None
    restated: DataFrame | None = None
    refused: str = ""

    @property
    def changed(self) -> bool:
        return any(self.counts.get(name) for name in ("inserted", "updated", "deleted", "vanished", "restated"))


def delivery(spark: SparkSession, job: CleanJob, rows: DataFrame) -> Delivery:
    """What the records do, rejected ones included: they count for which keys a snapshot holds."""
    return _DELIVERIES[job.contract.delivers](spark, job, rows)


def _changes(spark: SparkSession, job: CleanJob, rows: DataFrame) -> Delivery:
    contract = job.contract
    target, gone = _known(spark, job)
    accepted = _accepted(rows, contract)
    suspects = kept(_suspects(job, rows, target, gone)) if job.corrections.replaced or job.reread else None
    if suspects is None or (job.reread and suspects.isEmpty()):
        return _judged(contract, accepted, target, gone)
    if job.reread and (refused := _unclear(contract, target)):
        return Delivery(accepted.limit(0), {}, refused=refused)
    restated = kept(_forgotten(job, _restated(spark, job, target, suspects)))
    if refused := _unknown_history(job, restated):
        return Delivery(restated.limit(0), {}, refused=refused)
    others = accepted.join(suspects, list(contract.key), "left_anti")
    usual = _judged(contract, others, target, gone)
    settled = _tallied(contract, _settled(contract, accepted, restated)).counts
    again = _tallied(contract, restated)
    counts = {name: usual.counts[name] + settled[name] for name in OUTCOMES}
    counts["restated"] = again.changes
    return Delivery(
        changes=usual.changes.unionByName(_acting(restated), allowMissingColumns=True),
        counts=counts,
        touched=usual.touched | again.touched,
        deletes=usual.deletes,
        restated=restated,
    )


def _judged(contract: Silver, accepted: DataFrame, target: DataFrame, gone: DataFrame) -> Delivery:
    """Each record against what the table and its tombstones hold."""
    found = Keys(accepted, contract.key)
    judged = kept(_final(against(accepted, met(contract, target, found), found.among(gone), _shape(contract))))
    tally = _tallied(contract, judged)
    deletes = judged.where(DELETED).where(_is("deleted", "unchanged")) if tally.deletes else None
    return Delivery(_acting(judged), tally.counts, tally.touched, deletes)


def _suspects(job: CleanJob, rows: DataFrame, target: DataFrame, gone: DataFrame) -> DataFrame:
    """The keys whose row, or whose delete, came from what does not hold any more: another version may count now."""
    key = list(job.contract.key)
    columns = dict.fromkeys((*key, *job.contract.newest_by, *PLACE))
    held = target.select(*columns).union(gone.select(*columns))
    corrected = F.col("_source_file").isin([uri for _, uri in job.corrections.replaced])
    found = held.where(corrected).select(*key)
    return (found.union(_disowned(job.contract, rows, held)) if job.reread else found).distinct()


def _disowned(contract: Silver, rows: DataFrame, held: DataFrame) -> DataFrame:
    """The keys that a record gave under an earlier contract, and does not give now: rejected, or read otherwise.

    And those of which it is an older version now: one that it was newer than may count.
    """
    key, order = list(contract.key), [name for name in contract.newest_by if name in contract.columns]
    good = (F.size(REASONS) == 0).alias("_good")
    now = rows.select(*PLACE, good, *(F.col(name).alias(f"_now_{name}") for name in dict.fromkeys((*key, *order))))
    sinks = newer([F.col(name) for name in order], [F.col(f"_now_{name}") for name in order]) if order else F.lit(False)
    return held.join(now, PLACE).where(~(F.col("_good") & equal(key, "_now_")) | sinks).select(*key)


def _unclear(contract: Silver, target: DataFrame) -> str:
    """Why the batch is refused: under a changed key, rows of the table could not be told apart any more."""
    nothing = reduce(or_, [F.col(name).isNull() for name in contract.key])
    alike = target.where(nothing).groupBy(*contract.key).agg(F.count("*").alias("_times")).where("_times > 1")
    if alike.isEmpty():
        return ""
    key = ", ".join(contract.key)
    return (
        f"rows of {contract.dataset} from before its key was ({key}) have nothing in these columns, and cannot be told "
        "apart by the rest; keep all columns of the old key in it, or give the dataset another name"
    )


def _restated(spark: SparkSession, job: CleanJob, target: DataFrame, suspects: DataFrame) -> DataFrame:
    """For each suspected key its newest version in the whole history, the row that the table holds, and the outcome."""
    contract = job.contract
    key = list(contract.key)
    newest = _newest(contract, of_history(spark, job), suspects)
    known = prefixed(target, TARGET, (*key, *contract.columns, *order_of(contract.newest_by)))
    # A row from before the key had all its columns has nothing in the new ones.
    meeting = equal(key, TARGET)
    # Keys that history does not know any more keep their name, so that their row can be found and deleted.
    found = suspects.join(newest.drop(OUTCOME), key, "left").join(known, meeting, "left")
    held, alive = _held(), F.coalesce(~F.col(DELETED), F.lit(False))
    outcome = (
        F.when(~alive & held, "deleted")
        .when(alive & ~held, "inserted")
        .when(alive & ~equal(list(contract.columns), TARGET), "updated")
        .when(alive & ~equal(PLACE, TARGET), "moved")
        .otherwise("unchanged")
    )
    return found.withColumn(OUTCOME, outcome)


def _held() -> SparkColumn:
    """Whether the table has a row of the key: each row came from a file."""
    return F.col(TARGET + PLACE[0]).isNotNull()


def _newest(contract: Silver, history: DataFrame, suspects: DataFrame) -> DataFrame:
    """The newest version of each suspected key, of which a corrected file may bring very many."""
    mine = Keys(suspects, contract.key).among(history)
    return ranked(mine, contract.key, contract.newest_by).where(_is("newest"))


def _doubtful(job: CleanJob) -> SparkColumn:
    """Whether the newest version of a key may be among records that were let go.

    Not where one is left that is no older than the row that the table holds, which was the newest of all as the same
    contract reads it; nor where it is younger than the day on which the last of the others came.
    """
    order = [name for name in job.contract.newest_by if name in job.contract.columns]
    mine, held = ([F.col(prefix + name) for name in order] for prefix in ("", TARGET))
    no_older = F.lit(not job.reread) & _held() & ~newer(held, mine)
    return F.col(DELETED).isNull() | ~(no_older | F.coalesce(mine[0] > F.lit(job.gone_until), F.lit(False)))


def _forgotten(job: CleanJob, restated: DataFrame) -> DataFrame:
    """Keys of which nobody knows the newest version any more are deleted, if the contract says so."""
    if job.gone_until is None or job.contract.unknown_history != "delete":
        return restated
    outcome = F.when(_doubtful(job), F.when(_held(), "deleted").otherwise("unchanged")).otherwise(F.col(OUTCOME))
    return restated.withColumn(OUTCOME, outcome)


def _unknown_history(job: CleanJob, restated: DataFrame) -> str:
    """Why the batch is refused: some keys whose newest version may have been let go."""
    if job.gone_until is None or job.contract.unknown_history == "delete":
        return ""
    doubtful = restated.where(_doubtful(job))
    keys = [", ".join(map(str, row)) for row in doubtful.select(*job.contract.key).limit(_SHOWN).collect()]
    if not keys:
        return ""
    return (
        f"of {doubtful.count()} keys the newest version may be among records that {job.contract.reads} has let go: "
        f"{'; '.join(keys)}; deliver the file with a record of each, no older than the one before, or write "
        "unknown_history: delete"
    )


def _settled(contract: Silver, accepted: DataFrame, restated: DataFrame) -> DataFrame:
    """The outcome of the records whose keys were looked up in the history."""
    of_key = F.when(_is("moved"), "unchanged").otherwise(F.col(OUTCOME)).alias("_of_key")
    winners = restated.select(*contract.key, *(F.col(name).alias(f"_won_{name}") for name in PLACE), of_key)
    mine = accepted.join(winners, list(contract.key))
    outcome = F.when(F.col("_in_batch") != "newest", F.col("_in_batch")).when(equal(PLACE, "_won_"), F.col("_of_key"))
    return mine.withColumn(OUTCOME, outcome.otherwise("superseded"))


def _snapshot(spark: SparkSession, job: CleanJob, rows: DataFrame) -> Delivery:
    contract = job.contract
    target = tables.version(spark, contract.dataset, job.bases[contract.dataset])
    accepted = _accepted(rows, contract)
    known = prefixed(target, TARGET, (*contract.key, *contract.columns))
    meeting = [F.col(name) == F.col(TARGET + name) for name in contract.key]
    held = F.col(TARGET + contract.key[0]).isNotNull()
    outcome = F.when(~held, "inserted").when(equal(list(contract.columns), TARGET), "unchanged").otherwise("updated")
    outcome = F.lit("superseded") if job.outdated else outcome
    judged = kept(_final(accepted.join(known, meeting, "left").withColumn(OUTCOME, outcome)))
    tally = _tallied(contract, judged)
    if job.outdated:
        return Delivery(_acting(judged), tally.counts)
    return _without_missing(contract, rows, target, Delivery(_acting(judged), tally.counts, tally.touched))


def _without_missing(contract: Silver, rows: DataFrame, target: DataFrame, found: Delivery) -> Delivery:
    """The delivery with the rows deleted that the snapshot lacks; with none of them, where any may be in it."""
    known = prefixed(target, TARGET, (*contract.key, *contract.columns))
    absent = [F.col(name) == F.col(TARGET + name) for name in contract.key]
    missing = known.join(rows.select(*contract.key).distinct(), absent, "left_anti")
    keys = missing.select("*", *(F.col(TARGET + name).alias(name) for name in contract.key))
    deleted = kept(keys.withColumn(OUTCOME, F.lit("deleted")))
    gone = _tallied(contract, deleted)
    lacking = gone.counts["deleted"]
    refused = _too_many(contract, lacking, target.count()) if lacking else ""
    if lacking and not rows.where(_of_any_key(contract)).isEmpty():
        return replace(found, counts={**found.counts, "vanished": 0, "spared": lacking}, refused=refused)
    return Delivery(
        changes=found.changes.unionByName(_acting(deleted), allowMissingColumns=True),
        counts={**found.counts, "vanished": lacking},
        touched=found.touched | gone.touched,
        refused=refused,
    )


def _of_any_key(contract: Silver) -> SparkColumn:
    """Whether nobody can say which row a record is: its key cannot be read, or it may be the end of a file cut off."""
    no_key = reduce(or_, [F.col(name).isNull() for name in contract.key])
    return no_key | F.array_contains(REASONS, MALFORMED)


def _too_many(contract: Silver, lacking: int, held: int) -> str:
    if lacking <= part_of(held, contract.most_deleted):
        return ""
    most = percent(contract.most_deleted)
    return f"the snapshot lacks {lacking} of the table's {held} rows, more than most_deleted: {most}"


_DELIVERIES: dict[str, Callable[[SparkSession, CleanJob, DataFrame], Delivery]] = {
    "changes": _changes,
    "snapshot": _snapshot,
}


def _accepted(rows: DataFrame, contract: Silver) -> DataFrame:
    """The records that keep the contract, each with its outcome among those of the batch."""
    accepted = rows.where(F.size(REASONS) == 0).select(*contract.columns, *PLACE, DELETED, CONTENT)
    return ranked(accepted, contract.key, contract.newest_by).withColumnRenamed(OUTCOME, "_in_batch")


def _known(spark: SparkSession, job: CleanJob) -> tuple[DataFrame, DataFrame]:
    """The table and its tombstones, as they were when the batch was planned."""
    dataset = job.contract.dataset
    gone = naming.tombstone_table(dataset)
    return tables.version(spark, dataset, job.bases[dataset]), tables.version(spark, gone, job.bases[gone])


def _shape(contract: Silver) -> Shape:
    return Shape(contract.key, list(contract.columns), order_of(contract.newest_by))


def _final(decided: DataFrame) -> DataFrame:
    """What a newer version in the same batch has decided already stays decided."""
    outcome = F.when(F.col("_in_batch") == "newest", F.col(OUTCOME)).otherwise(F.col("_in_batch"))
    return decided.withColumn(OUTCOME, outcome)


def _is(*outcomes: str) -> SparkColumn:
    return F.col(OUTCOME).isin(*outcomes)


@dataclass(frozen=True)
class _Tally:
    counts: dict[str, int]
    changes: int
    touched: Days
    deletes: int


def _tallied(contract: Silver, judged: DataFrame) -> _Tally:
    """In one pass: records by outcome, deletes among them, and the days on which the rows they meet lie."""
    column = TARGET + (contract.time_partition or "")
    day = (F.col(column) if column in judged.columns else F.lit(None)).cast("date")
    delete = F.count_if(F.col(DELETED)) if DELETED in judged.columns else F.lit(0)
    sums = (F.count("*").alias("n"), F.collect_set(F.struct(day.alias("day"))).alias("days"), delete.alias("deletes"))
    rows = judged.groupBy(OUTCOME).agg(*sums).collect()
    counts = {row[OUTCOME]: row["n"] for row in rows}
    touched = frozenset(one["day"] for row in rows if row[OUTCOME] in _MEETING for one in row["days"])
    changes = sum(counts.get(name, 0) for name in ACTIONS)
    deletes = sum(row["deletes"] for row in rows)
    return _Tally({name: counts.get(name, 0) for name in OUTCOMES}, changes, touched, deletes)


def _acting(judged: DataFrame) -> DataFrame:
    action = F.create_map(*(F.lit(word) for pair in ACTIONS.items() for word in pair))[F.col(OUTCOME)]
    return judged.where(_is(*ACTIONS)).withColumn(ACTION, action)
