"""From raw records to typed columns, and the reasons why a record is rejected. Frames in, frames out."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.contracts import Column, Silver

RECORD = "_record"
REASONS = "_reasons"
DELETED = "_delete"
# In an SQL condition: a text, a name in backticks, or a word, with the bracket that makes it a function.
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]+`|[A-Za-z_][\w.]*(?:\s*\()?""")
_SQL_WORDS = {"and", "or", "not", "is", "null", "in", "like", "between", "true", "false"}
# Put behind each record: where it is not found, the payload went on after the record's own end.
_END = "end of record"
_LAST_SECOND = 253_402_300_799  # of the year 9999
_CLEANERS: dict[str, Callable[[SparkColumn], SparkColumn]] = {
    "trim": F.trim,
    "lower": F.lower,
    "upper": F.upper,
    "digits": lambda text: F.regexp_replace(text, r"[^0-9]", ""),
    "currency": lambda text: F.regexp_replace(text, r"[$€£,\s]", ""),
}


def parsed(rows: DataFrame, contract: Silver, interval_end: datetime) -> DataFrame:
    """Bronze rows with one column per contract column, `_delete`, and `_reasons` (empty: the record is accepted)."""
    records = rows.withColumn(RECORD, _record(F.col("_raw_payload")))
    records = records.withColumn(DELETED, _delete_condition(contract))
    texts = {name: _text(column) for name, column in contract.columns.items()}
    records = records.select("*", *(text.alias(f"_text_{name}") for name, text in texts.items()))
    typed = records.select(
        "*", *(_cast(F.col(f"_text_{n}"), column).alias(n) for n, column in contract.columns.items())
    )
    judged = typed.withColumn(REASONS, _reasons(contract, interval_end))
    return judged.drop(RECORD, *(f"_text_{name}" for name in texts))


def _record(payload: SparkColumn) -> SparkColumn:
    """The payload's JSON value and, behind it, the mark of its end: Spark's parser ignores what follows a value."""
    return F.try_parse_json(F.concat(F.lit("["), payload, F.lit(f', "{_END}"]')))


def _path(path: str) -> str:
    """A dotted path as a variant path, each step in quotes that it does not hold itself: there are no escapes."""
    return "$[0]" + "".join(_step(step) for step in path.split("."))


def _step(step: str) -> str:
    if "'" not in step:
        return f"['{step}']"
    return f'["{step}"]' if '"' not in step else f".{step}"


def _text(column: Column) -> SparkColumn:
    """A column's value as text: the first of its paths that has one, normalised."""
    found = F.coalesce(*(F.try_variant_get(F.col(RECORD), _path(path), "string") for path in column.from_))
    return reduce(lambda text, cleaner: _CLEANERS[cleaner](text), column.clean, found)


def _delete_condition(contract: Silver) -> SparkColumn:
    """`delete_when`, whose names are paths in the record."""
    if not contract.delete_when:
        return F.lit(False)
    return F.coalesce(F.expr(_over_record(contract.delete_when)), F.lit(False))


def _over_record(condition: str) -> str:
    """An SQL condition with every path in it, such as op or source.table, read from the record as text."""

    def read(token: re.Match[str]) -> str:
        word = token[0]
        if word[0] in "'\"" or word[-1] == "(" or word.lower() in _SQL_WORDS:
            return word
        path = _path(word.strip("`")).replace("\\", "\\\\").replace("'", "\\'")
        return f"try_variant_get({RECORD}, '{path}', 'string')"

    return _TOKEN.sub(read, condition)


def _cast(text: SparkColumn, column: Column) -> SparkColumn:
    """The typed value; NULL where the text is no such value."""
    if column.type in ("date", "timestamp"):
        forms = [_moment(text, form) for form in column.formats] or [text]
        moment = F.coalesce(*(form.try_cast(column.type) for form in forms))
        # Spark goes further than most readers of a table can follow.
        return F.when(F.year(moment).between(1, 9999), moment)
    value = text.try_cast(column.type)
    if column.type.startswith("decimal"):
        return F.when(_exact(text, column.type, value), value)
    if column.type == "double":
        return F.when(~F.isnan(value) & (F.abs(value) != float("inf")), value)
    return value


def _exact(text: SparkColumn, kind: str, value: SparkColumn) -> SparkColumn:
    """Whether a decimal is the number that the text says: a cast rounds what does not fit its scale."""
    scale = kind.rstrip(")").split(",")[1]
    scientific = text.rlike("[eE]")
    return F.when(scientific, text.try_cast("double") == value.cast("double")).otherwise(
        text.rlike(rf"^[^.]*(\.\d{{0,{scale}}}0*)?\s*$")
    )


def _moment(text: SparkColumn, form: str) -> SparkColumn:
    number = text.try_cast("bigint")
    # Out of range these are not NULL: they would fail the whole batch.
    if form == "epoch_ms":
        last = _LAST_SECOND * 1000 + 999
        return F.when(number.between(-last, last), F.timestamp_millis(number))
    if form == "epoch_s":
        return F.when(number.between(-_LAST_SECOND, _LAST_SECOND), F.timestamp_seconds(number))
    return F.try_to_timestamp(text, F.lit(form))


def _reasons(contract: Silver, interval_end: datetime) -> SparkColumn:
    """Every rule that a record breaks, by name."""
    alone = F.try_variant_get(F.col(RECORD), "$[1]", "string").eqNullSafe(_END)
    malformed = ~alone | ~F.col("_raw_payload").rlike(r"^\s*\{")
    rules = [rule for name, column in contract.columns.items() for rule in _column_rules(contract, name, column)]
    if contract.late_data:
        rules.append((_late(contract, interval_end, contract.late_data), "record.late"))
    broken = F.array_compact(F.array(*(F.when(condition, F.lit(reason)) for condition, reason in rules)))
    return F.when(malformed, F.array(F.lit("record.malformed"))).otherwise(F.array_sort(broken))


def _column_rules(contract: Silver, name: str, column: Column) -> list[tuple[SparkColumn, str]]:
    value, text = F.col(name), F.col(f"_text_{name}")
    rules = [(text.isNotNull() & value.isNull(), f"{name}.type")]
    if column.required:
        rules.append((text.isNull(), f"{name}.required"))
    if column.accepted:
        rules.append((value.isNotNull() & ~value.cast("string").isin(*column.accepted), f"{name}.accepted"))
    if column.check:
        rules.append((~F.expr(column.check), f"{name}.check"))
    # A delete says which row and when; the rest of it is not looked at.
    if name not in (*contract.key, *contract.newest_by):
        rules = [(~F.col(DELETED) & condition, reason) for condition, reason in rules]
    return rules


def _late(contract: Silver, interval_end: datetime, late_data: timedelta) -> SparkColumn:
    return F.col(contract.newest_by[0]) < F.lit(interval_end - late_data).cast("timestamp")
