"""From raw records to typed columns, and the reasons why a record is rejected. Frames in, frames out."""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.contracts import Column, Silver
from lakehouse.contracts.paths import names, with_names
from spark_jobs.casting import cast, text_of, usual
from spark_jobs.payloads import RECORD, at, record
from spark_jobs.reasons import DELETE_TRIED, DELETED, GIVEN, MALFORMED, attempted, reasons

REASONS = "_reasons"
# A hash of the record's text, by which repeats are told.
CONTENT = "_content"
__all__ = ["CONTENT", "DELETED", "MALFORMED", "REASONS", "parsed"]


def parsed(rows: DataFrame, contract: Silver, late_before: SparkColumn | None = None) -> DataFrame:
    """Bronze rows with one column per contract column, `_delete`, `_content` and `_reasons` (empty: it is accepted).

    A change older than `late_before` is late; where that is NULL, none is.
    """
    records = rows.withColumn(RECORD, record(F.col("_raw_payload")))
    typed = _with_computed(_with_read(_with_deletes(records, contract), contract), contract)
    known_faults = F.col("_malformed").isNotNull() if "_malformed" in rows.columns else F.lit(False)
    judged = typed.withColumn(REASONS, reasons(contract, known_faults, late_before))
    content = F.xxhash64("_raw_payload").alias(CONTENT)
    return judged.select(*rows.columns, DELETED, *contract.columns, content, REASONS)


def _with_deletes(records: DataFrame, contract: Silver) -> DataFrame:
    """Whether each record is a delete: `delete_when`, whose names are paths in the record."""
    if not contract.delete_when:
        return records.select("*", F.lit(False).alias(DELETE_TRIED), F.lit(False).alias(DELETED))
    fields = {path: f"_field_{number}" for number, path in enumerate(names(contract.delete_when))}
    read = records.select("*", *(at(path, "string").alias(field) for path, field in fields.items()))
    condition = F.expr(with_names(contract.delete_when, fields.__getitem__))
    tried = read.withColumn(DELETE_TRIED, attempted(F.coalesce(condition, F.lit(False))))
    return tried.withColumn(DELETED, F.coalesce(F.col(DELETE_TRIED), F.lit(False)))


def _with_read(records: DataFrame, contract: Silver) -> DataFrame:
    """The columns that have a path."""
    columns = {name: column for name, column in contract.columns.items() if not column.expr}
    texts = records.select("*", *(text_of(column).alias(GIVEN + name) for name, column in columns.items()))
    return texts.select("*", *(cast(F.col(GIVEN + name), column).alias(name) for name, column in columns.items()))


def _with_computed(rows: DataFrame, contract: Silver) -> DataFrame:
    """The columns that have an expression, which may use those with a path and those above it."""
    for level in _levels(contract):
        tried = {
            GIVEN + name: attempted(F.struct(F.expr(column.expr).alias("value"))) for name, column in level.items()
        }
        values = {name: F.col(GIVEN + name)["value"].try_cast(column.type) for name, column in level.items()}
        typed = {name: usual(value, level[name].type) for name, value in values.items()}
        rows = rows.withColumns(tried).withColumns(typed)
    return rows


def _levels(contract: Silver) -> list[dict[str, Column]]:
    """The columns that have an expression, in groups of which none uses another: each costs a projection."""
    levels: list[dict[str, Column]] = []
    for name, column in contract.columns.items():
        if not column.expr:
            continue
        if not levels or levels[-1].keys() & {used.lower() for used in names(column.expr)}:
            levels.append({})
        levels[-1][name] = column
    return levels
