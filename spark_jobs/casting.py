"""From texts to typed values: cleaners, forms of times, and casts that never change what a text says."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from lakehouse.contracts import Column
from lakehouse.contracts.fields import Cleaner
from spark_jobs.payloads import at, is_text
from spark_jobs.reasons import attempted

_LAST_SECOND = 253_402_300_799  # of the year 9999
# A number's text is no longer; a hostile one would keep Java busy for the square of its length.
_LONGEST_NUMBER = 100
_AMOUNT = r"(?:[0-9]{1,3}(?:[,\s][0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+"
_MONEY = rf"(?U)^\s*([+-]?)\s*\p{{Sc}}?\s*([+-]?)({_AMOUNT})\s*\p{{Sc}}?\s*$"


def _currency(text: SparkColumn) -> SparkColumn:
    """An amount without its currency sign and thousands; what is no amount stays, for the cast to refuse."""
    bare = F.regexp_replace(F.regexp_replace(text, _MONEY, "$1$2$3"), r"(?U)[,\s]", "")
    is_money = F.when(F.length(text) <= _LONGEST_NUMBER, text.rlike(_MONEY))
    return F.when(is_money, bare).otherwise(text)


CLEANERS: dict[Cleaner, Callable[[SparkColumn], SparkColumn]] = {
    "trim": F.trim,
    "squeeze": lambda text: F.trim(F.regexp_replace(text, r"(?U)\s+", " ")),
    "empty_to_null": lambda text: F.when(text.rlike(r"(?U)\S"), text),
    "lower": F.lower,
    "upper": F.upper,
    "digits": lambda text: F.regexp_replace(text, r"[^0-9]", ""),
    "currency": _currency,
    "currency_eu": lambda text: _currency(F.translate(text, ".,", ",.")),
}


def text_of(column: Column) -> SparkColumn:
    """A column's value as text: the first of its paths that has one, normalised."""
    return F.coalesce(*(_cleaned(path, column.clean) for path in column.from_))


def _cleaned(path: str, cleaners: tuple[Cleaner, ...]) -> SparkColumn:
    text = at(path, "string")
    if not cleaners:
        return text
    cleaned = reduce(lambda so_far, cleaner: CLEANERS[cleaner](so_far), cleaners, text)
    # Cleaners are for what people write: the JSON number 1.234 is no thousand anywhere.
    return F.when(is_text(path), cleaned).otherwise(text)


def cast(text: SparkColumn, column: Column) -> SparkColumn:
    """The typed value of a text; NULL where the text is no such value."""
    if column.type in ("date", "timestamp"):
        forms = [_moment(text, form) for form in column.formats] or [_iso(text)]
        value = F.coalesce(*(form.try_cast(column.type) for form in forms))
    elif column.type.startswith("decimal"):
        value = F.when(_fits_exactly(text, column.type), text.try_cast(column.type))
    else:
        value = text.try_cast(column.type)
    return usual(value, column.type)


def usual(value: SparkColumn, kind: str) -> SparkColumn:
    """The value; NULL where most readers of a table could not follow."""
    if kind in ("date", "timestamp"):
        return F.when(F.year(value).between(1, 9999), value)
    if kind == "double":
        return F.when(~F.isnan(value) & (F.abs(value) != float("inf")), value)
    return value


def _fits_exactly(text: SparkColumn, kind: str) -> SparkColumn:
    """Whether a decimal can be the number that the text says: a cast rounds what does not fit its scale."""
    scale = int(kind.rstrip(")").split(",")[1])
    plain = text.rlike(rf"^\s*[+-]?\d*(?:\.\d{{0,{scale}}}0*)?\s*$")
    return F.when(F.length(text) <= _LONGEST_NUMBER, plain | _fits_scientific(text, kind)).otherwise(False)


def _fits_scientific(text: SparkColumn, kind: str) -> SparkColumn:
    """So few digits that two numbers which are the same as doubles are the same."""
    short = text.rlike(r"^\s*[+-]?\d(?:\.?\d){0,14}\.?[eE][+-]?0*\d{1,2}\s*$")
    return F.when(short, text.try_cast("double") == text.try_cast(kind).cast("double")).otherwise(False)


def _iso(text: SparkColumn) -> SparkColumn:
    """A text for Spark's own cast, which takes a time without a day for a time of today."""
    return F.when(~text.rlike(r"^\s*T?\d+:"), text)


def _moment(text: SparkColumn, form: str) -> SparkColumn:
    number = text.try_cast("bigint")
    # Out of range these are not NULL: they would fail the whole batch.
    if form == "epoch_ms":
        last = _LAST_SECOND * 1000 + 999
        return F.when(number.between(-last, last), F.timestamp_millis(number))
    if form == "epoch_s":
        return F.when(number.between(-_LAST_SECOND, _LAST_SECOND), F.timestamp_seconds(number))
    parsed = F.try_to_timestamp(text, F.lit(form))
    # A year of six digits is read, and then too far for a moment: that would fail the whole batch.
    return F.when(text.rlike(r"\d{6}"), attempted(parsed)).otherwise(parsed)
