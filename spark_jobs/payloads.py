"""Reading a record: its payload as JSON, and what it holds at a path."""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from lakehouse.contracts.paths import steps

RECORD = "_record"
# Put behind each record: where it is not found, the payload went on after the record's own end.
_END = "end of record"
_TEXT = r'(?s)"(?:[^"\\]++|\\.)*+"'
# Numbers that Spark reads as doubles, found fast; and, of them, those that a double may change: more than 38 digits
# or, in scientific form, more than 15 or a great power.
_DOUBLE = r"[:\[,]\s*+-?[\d.]++(?:(?<=[\d.]{39})|[eE])"
_LONG = r"[\d.]{39}|[\d.]{16,38}[eE]|[\d.]{1,38}[eE][+-]?0*[1-9]\d\d"
_LONG_NUMBER = rf"([:\[,]\s*)(-?(?={_LONG})(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?)(?=\s*[,}}\]])"
# Writing deeper values overflows the stack, which ends the JVM.
_DEEPEST = 100
_MANY_BRACKETS = rf"\A(?:[^\[{{]*+[\[{{]){{{_DEEPEST + 1}}}"
_SHALLOW_BRACKETS = r"\A" + r"[\[{](?:" * _DEEPEST + r")*+[\]}]" * _DEEPEST + r"\z"
_SURROGATE = r"\\u[dD][89a-fA-F]"
_SURROGATE_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"


def record(payload: SparkColumn) -> SparkColumn:
    """The payload's JSON value and, behind it, the mark of its end: Spark's parser ignores what follows a value."""
    readable = F.when(~_is_deep(payload), _with_exact_numbers(payload))
    return F.try_parse_json(F.concat(F.lit("["), readable, F.lit(f', "{_END}"]')))


def _is_deep(payload: SparkColumn) -> SparkColumn:
    brackets = F.regexp_replace(F.regexp_replace(payload, _TEXT, ""), r"[^\[\]{}]+", "")
    return F.when(payload.rlike(_MANY_BRACKETS), ~brackets.rlike(_SHALLOW_BRACKETS)).otherwise(False)


def _with_exact_numbers(payload: SparkColumn) -> SparkColumn:
    """The payload with long numbers as texts, which lose no digit; no JSON any more if a text looks like one too."""
    without_texts = F.regexp_replace(payload, _TEXT, '""')
    exact = F.regexp_replace(payload, _LONG_NUMBER, '$1"$2"')
    is_inexact = F.when(payload.rlike(_DOUBLE), without_texts.rlike(_LONG_NUMBER))
    return F.when(is_inexact, exact).otherwise(payload)


def is_malformed(payload: SparkColumn) -> SparkColumn:
    """Whether the payload is anything but one JSON object whose texts can be kept."""
    alone = F.try_variant_get(F.col(RECORD), "$[1]", "string").eqNullSafe(_END)
    is_object = F.ltrim(payload, F.lit(" \t\r\n")).startswith("{")
    # Half a character would become a question mark, and different keys the same.
    halves = F.regexp_replace(payload, rf"\\\\|{_SURROGATE_PAIR}", " ").rlike(_SURROGATE)
    may_have_halves = payload.contains("\\ud") | payload.contains("\\uD")
    return ~alone | ~is_object | F.when(may_have_halves, halves).otherwise(False)


def at(path: str, kind: str) -> SparkColumn:
    """What the record holds at a path, as a Spark type; NULL where there is nothing."""
    value, below = F.col(RECORD), "$[0]"
    for step in steps(path):
        written = _written(step)
        if written is None:
            value, below = F.try_variant_get(value, below, "map<string,variant>")[F.lit(step)], "$"
        else:
            below += written
    return F.try_variant_get(value, below, kind)


def _written(step: str | int) -> str | None:
    """A step in Spark's variant paths, which have no escapes: None for a name that holds both kinds of quotes."""
    if isinstance(step, int):
        return f"[{step}]"
    quote = next((quote for quote in "'\"" if quote not in step), None)
    return f"[{quote}{step}{quote}]" if quote else None


def is_text(path: str) -> SparkColumn:
    """Whether the record holds a text at the path; a number or an object can be read as one, too."""
    return F.schema_of_variant(at(path, "variant")) == "STRING"
