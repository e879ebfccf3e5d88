"""The rules that a record breaks, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from lakehouse.contracts import Column, Silver
from spark_jobs.payloads import is_malformed

DELETED = "_delete"
# The reason of what is no record, or not surely a whole one.
MALFORMED = "record.malformed"
# Whether the record is a delete; NULL where that cannot be computed.
DELETE_TRIED = "_delete_tried"
# Before a column's name: what its value was cast from, a text or the attempt at its expression.
GIVEN = "_given_"
# Java's matcher goes deeper with each turn of a group, unless that is possessive: a long text would overflow the
# stack, which ends the JVM.
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{[\d,]+\})(?!\+)")
_LONGEST_REPEATED = 200


def attempted(value: SparkColumn, otherwise: object = None) -> SparkColumn:
    """The value, or another where computing it fails, such as by division by zero: for the one row, not the batch."""
    # try_to_binary makes NULL of any error in its argument. In a lambda, since what several expressions have in
    # common is computed before them, outside of any attempt; Spark does not look for that within lambdas.
    text = F.coalesce(value.cast("string"), F.lit(""))
    computed = F.try_to_binary(text, F.lit("utf-8")).isNotNull()
    return F.transform(F.array(F.lit(0)), lambda _: F.when(computed, value).otherwise(F.lit(otherwise)))[0]


def reasons(contract: Silver, known_faults: SparkColumn, late_before: SparkColumn | None) -> SparkColumn:
    """Every rule that a record breaks, sorted; of a malformed record nothing else is said."""
    rules = [(F.col(DELETE_TRIED).isNull(), "record.delete_when")]
    if late_before is not None:
        rules.append((F.col(contract.newest_by[0]) < late_before, "record.late"))
    for name, column in contract.columns.items():
        # A delete says which row and when; the rest of it is not looked at.
        always = name in (*contract.key, *contract.newest_by)
        rules += [(broken if always else ~F.col(DELETED) & broken, reason) for broken, reason in _rules(name, column)]
    rules += [(~F.col(DELETED) & _fails(rule), f"rule.{name}") for name, rule in contract.rules.items()]
    broken = F.array_compact(F.array(*(F.when(condition, F.lit(reason)) for condition, reason in rules)))
    malformed = known_faults | is_malformed(F.col("_raw_payload"))
    return F.when(malformed, F.array(F.lit(MALFORMED))).otherwise(F.array_sort(broken))


def _rules(name: str, column: Column) -> Iterator[tuple[SparkColumn, str]]:
    """What would break a column's rules, and the name of each."""
    value, given = F.col(name), F.col(GIVEN + name)
    if column.expr:
        yield given.isNull(), f"{name}.expr"
        missing = given.isNotNull() & given["value"].isNull()
        given = given["value"]
    else:
        missing = given.isNull()
    yield given.isNotNull() & value.isNull(), f"{name}.type"
    if column.required:
        yield missing, f"{name}.required"
    if column.accepted:
        yield ~value.cast("string").isin(*column.accepted), f"{name}.accepted"
    if column.between:
        lowest, highest = (F.lit(str(bound)).cast(column.type) for bound in column.bounds)
        yield ~value.between(lowest, highest), f"{name}.between"
    if column.matches:
        yield ~_matches(value.cast("string"), column.matches), f"{name}.matches"
    if column.check:
        yield _fails(column.check), f"{name}.check"


def _fails(condition: str) -> SparkColumn:
    """Whether a condition is false or cannot be computed; the unknown passes."""
    return attempted(~F.expr(condition), otherwise=True)


def _matches(text: SparkColumn, pattern: str) -> SparkColumn:
    """Whether the whole text matches, a line break at its end included."""
    matches = text.rlike(rf"\A(?:{pattern})\z")
    if not _REPEATED_GROUP.search(pattern):
        return matches
    return F.when(F.length(text) <= _LONGEST_REPEATED, matches).otherwise(text.isNull())
