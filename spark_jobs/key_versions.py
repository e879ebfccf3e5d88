"""Versions of a key: which one counts, and what it does to the table. Frames in, frames out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.parsing import CONTENT

OUTCOME = "_outcome"
PLACE = ["_source_file", "_source_offset"]  # where a record came from
TARGET = "_target_"
TOMBSTONE = "_tombstone_"


def order_of(newest_by: Sequence[str]) -> list[str]:
    """The whole order of versions: the contract's, made total by where a record came from."""
    return list(dict.fromkeys((*newest_by, "_source_offset", "_source_file")))


def ranked(rows: DataFrame, key: Sequence[str], newest_by: Sequence[str]) -> DataFrame:
    """Accepted rows with `_outcome`: newest, superseded, or duplicate (the same record once more)."""
    by_key = Window.partitionBy(*key).orderBy(*(F.desc(c) for c in order_of(newest_by)))
    same = Window.partitionBy(*key, CONTENT).orderBy(*(F.desc(c) for c in order_of(newest_by)))
    outcome = (
        F.when(F.row_number().over(by_key) == 1, "newest")
        .when(F.row_number().over(same) > 1, "duplicate")
        .otherwise("superseded")
    )
    return rows.withColumn(OUTCOME, outcome)


def prefixed(rows: DataFrame, prefix: str, columns: Sequence[str]) -> DataFrame:
    return rows.select(*(F.col(c).alias(prefix + c) for c in dict.fromkeys(columns)))


def equal(columns: Sequence[str], prefix: str) -> SparkColumn:
    """Whether a row has the same in these columns as in those with the prefix; nothing equals nothing."""
    return reduce(and_, [F.col(name).eqNullSafe(F.col(prefix + name)) for name in columns])


def newer(mine: Sequence[SparkColumn], theirs: Sequence[SparkColumn]) -> SparkColumn:
    """Whether one version's order comes after another's; as in `ranked`, a version without a value is the oldest."""
    ahead = [
        reduce(and_, [a.eqNullSafe(b) for a, b in zip(mine[:n], theirs[:n], strict=True)], _after(mine[n], theirs[n]))
        for n in range(len(mine))
    ]
    return reduce(or_, ahead)


def _after(mine: SparkColumn, theirs: SparkColumn) -> SparkColumn:
    return F.coalesce(mine > theirs, mine.isNotNull() & theirs.isNull())


@dataclass(frozen=True)
class Shape:
    """Of a table: the columns that identify a row, those that are its content, and those that order its versions."""

    key: Sequence[str]
    content: Sequence[str]
    order: Sequence[str]


def against(rows: DataFrame, target: DataFrame, tombstones: DataFrame, shape: Shape) -> DataFrame:
    """Rows with `_outcome`: inserted, updated, deleted, unchanged or superseded by what is known already."""
    key = shape.key
    known = prefixed(target, TARGET, (*key, *shape.content, *shape.order))
    gone = prefixed(tombstones, TOMBSTONE, (*key, *shape.order))
    joined = rows.join(known, [rows[c] == known[TARGET + c] for c in key], "left")
    joined = joined.join(gone, [rows[c] == gone[TOMBSTONE + c] for c in key], "left")
    dropped = [c for c in joined.columns if c.startswith(TOMBSTONE)]
    return joined.withColumn(OUTCOME, _outcome(shape)).drop(*dropped)


def _outcome(shape: Shape) -> SparkColumn:
    mine = [F.col(c) for c in shape.order]
    present, deleted = F.col(TARGET + shape.key[0]).isNotNull(), F.col(TOMBSTONE + shape.key[0]).isNotNull()
    # Also the very record that made the row, or the delete: another contract may read it now.
    after_target, after_delete = (
        newer(mine, [F.col(prefix + c) for c in shape.order]) | equal(PLACE, prefix) for prefix in (TARGET, TOMBSTONE)
    )
    same = equal(shape.content, TARGET)
    return (
        F.when(F.col("_delete") & ~present, "unchanged")
        .when(F.col("_delete") & after_target, "deleted")
        .when(~F.col("_delete") & present & same, "unchanged")
        .when(~F.col("_delete") & present & after_target, "updated")
        .when(~F.col("_delete") & ~present & (~deleted | after_delete), "inserted")
        .otherwise("superseded")
    )
