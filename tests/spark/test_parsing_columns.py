"""Columns, case by case: what each makes of its values, and which of its rules a value breaks."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any, get_args

import pytest
from pyspark.sql import Row

from lakehouse.contracts.fields import Cleaner
from spark_jobs.casting import CLEANERS
from spark_jobs.parsing import REASONS
from tests.spark.raw_records import (
    MONEY,
    NOON,
    Token,
    read,
    silver,
    utc,
)

DIGITS = "1234567890" * 3 + "12345678"
TINY = "0.0000000000000000000000000001"
THIRD = Token("0." + "3" * 400)
HUGE = Token("1" * 400)


class Broken(str):
    """The names of the rules that a value breaks, with _ between them."""

    __slots__ = ()


class Case:
    """A column, values with what it makes of them, and values that break its rules, by the rules' names."""

    def __init__(self, column: dict[str, Any], good: list[tuple[Any, Any]], **broken: list[Any]) -> None:
        self.column = column
        rejected = [(value, Broken(rules)) for rules, values in broken.items() for value in values]
        self.values = [*good, *rejected]


# What each column makes of its values; {x} is the column's own name.
CASES = {
    "an int is a whole number that fits": Case(
        {"type": "int"},
        [(3, 3), ("4", 4), (" 5 ", 5), (-1, -1), (3.0, 3)],
        type=[2.5, "2.5", 2**31, "ten", "", True, {"a": 1}, [1], "NaN", "Infinity", THIRD, HUGE, Token("1e400")],
    ),
    "a bigint is not rounded on its way": Case(
        {"type": "bigint"},
        [(2**53 + 1, 2**53 + 1), (str(2**53 + 1), 2**53 + 1)],
        type=[2**63, Token("1." + "0" * 50 + "1")],
    ),
    "a decimal is exact or rejected": Case(
        {"type": MONEY},
        [
            *((text, Decimal(text)) for text in ("12.34", "12.30", "9999999999.99", "-9999999999.99", ".5", "1e1")),
            *((12.34, Decimal("12.34")), ("12.3400", Decimal("12.34")), (Token("1E7"), Decimal(10_000_000))),
        ],
        type=[
            *("12.345", 12.345, "0.001", "1e-3", "12a", "", "10000000000.00", "1e400", "1e-400", "1e-999999999"),
            *("NaN", "Infinity", "-Infinity", Token("1e-400"), THIRD, HUGE),
        ],
    ),
    "a decimal may have more digits than a comparison holds": Case(
        {"type": "decimal(38,0)"},
        [
            (DIGITS, Decimal(DIGITS)),
            (f"{DIGITS}.0", Decimal(DIGITS)),
            (Token(DIGITS), Decimal(DIGITS)),
            ("1e3", Decimal(1000)),
        ],
        type=["1.5", Token(DIGITS + "9"), "1234567890123456e1"],
    ),
    "a decimal may have more places than a double": Case(
        {"type": "decimal(38,30)"},
        [(TINY, Decimal(TINY))],
        type=[THIRD, Token("1.2345678901234567890123456789e0")],
    ),
    "a double is a number": Case(
        {"type": "double"},
        [(1.5, 1.5), ("2.5e3", 2500.0), (THIRD, 1 / 3), (Token("1.2345678901234567e-5"), 1.2345678901234567e-5)],
        type=["NaN", "Infinity", "-Infinity", "much", HUGE, Token("1e400")],
    ),
    "a text is what was written, and so is a number in its place": Case(
        {"type": "string"},
        [
            *((HUGE, "1" * 400), (Token(f"-{DIGITS}9"), f"-{DIGITS}9"), (Token("1e400"), "1e400")),
            *(("a\x00b", "a\x00b"), (Token('{"a":[1]}'), '{"a":[1]}')),
            *((Token('"\\ud83d\\ude00"'), "😀"), (Token('"\\\\ud800"'), "\\ud800")),
        ],
    ),
    "a boolean is true or false": Case({"type": "boolean"}, [(True, True), ("false", False)], type=["maybe"]),
    "a date is a day of this calendar": Case(
        {"type": "date"},
        [("2026-01-31", date(2026, 1, 31)), ("0001-01-01", date(1, 1, 1)), ("9999-12-31", date(9999, 12, 31))],
        type=["2026-02-31", "10000-01-01", "-0001-01-01", "0000-01-01", "31/02/2026", "12:30"],
    ),
    "a date is read in its own form": Case(
        {"type": "date", "formats": "dd/MM/yyyy"},
        [("31/01/2026", date(2026, 1, 31)), ("01/01/0001", date(1, 1, 1))],
        type=["2026-01-31", "31/02/2026", "31/01/10000", "31/01/-1", "31/01/0000", "01/02/+300000", "01/02/-300000"],
    ),
    "a date without signs between its parts": Case(
        {"type": "date", "formats": "yyyyMMdd"},
        [("20260131", date(2026, 1, 31))],
        type=["+73068010711", "+999999990101", "20261301"],
    ),
    "a date that begins with its year": Case(
        {"type": "date", "formats": "yyyy-MM-dd"},
        [("2026-01-31", date(2026, 1, 31))],
        type=["+300000-01-01", "-300000-01-01", "+999999999-12-31", "+10000-01-01"],
    ),
    "each accepted form of a time is read and no other": Case(
        {"type": "timestamp", "formats": ["yyyy-MM-dd'T'HH:mm:ssX", "dd/MM/yyyy HH:mm"]},
        [
            ("2026-01-01T12:00:00Z", utc(2026, 1, 1, 12)),
            ("2026-01-01T12:00:00+02", utc(2026, 1, 1, 10)),
            ("01/02/2026 12:30", utc(2026, 2, 1, 12, 30)),
        ],
        type=[
            *("2026-01-01 12:00:00", "01/13/2026 12:30", "2026-02-30T00:00:00Z", "", "soon", NOON),
            *("+300000-01-01T00:00:00Z", "-300000-01-01T00:00:00Z", "+999999999-01-01T00:00:00Z"),
        ],
    ),
    "a time without forms is ISO, of UTC, and has a day": Case(
        {"type": "timestamp"},
        [("2026-01-01 12:00:00", utc(2026, 1, 1, 12)), ("2026-01-01T12:00:00+01:00", utc(2026, 1, 1, 11))],
        type=["+292000-01-01", "noon", "12:30", "T12:30:00Z", "-0001-01-01 00:00:00"],
    ),
    "milliseconds are a number or a text": Case(
        {"type": "timestamp", "formats": "epoch_ms"},
        [
            *((NOON, utc(2026, 1, 1, 12)), (str(NOON), utc(2026, 1, 1, 12)), (1, utc(1970, 1, 1, 0, 0, 0, 1000))),
            (253_402_300_799_999, utc(9999, 12, 31, 23, 59, 59, 999000)),
        ],
        type=[0.5, "x", 253_402_300_800_000, 2**63 - 1, -(2**63), 2**62],
    ),
    "seconds are a number or a text": Case(
        {"type": "timestamp", "formats": "epoch_s"},
        [(NOON // 1000, utc(2026, 1, 1, 12)), (0, utc(1970, 1, 1))],
        type=["x", 2**63 - 1, 10**15],
    ),
    "cleaners work one after the other": Case({"type": "string", "clean": ["trim", "upper"]}, [("  de ", "DE")]),
    "lower": Case({"type": "string", "clean": "lower"}, [("ABC", "abc")]),
    "digits are kept of a text, and a number stays as it is": Case(
        {"type": MONEY, "clean": "digits"}, [("+49 (30) 12", Decimal(493012)), (12.5, Decimal("12.50"))]
    ),
    "squeeze makes one blank of white space": Case(
        {"type": "string", "clean": "squeeze"}, [(" a \t\n b\u00a0\u2003c\r\n", "a b c"), (" \t ", "")]
    ),
    "a blank text counts as missing where it shall": Case(
        {"type": "int", "clean": "empty_to_null", "required": True},
        [(" 5", 5), (0, 0)],
        required=["", " \t\n\u00a0", None],
    ),
    "currency reads amounts with commas for thousands": Case(
        {"type": "decimal(12,4)", "clean": "currency"},
        [
            *(("$1,234.50", Decimal("1234.50")), ("€ 5", Decimal(5)), ("-£3.20", Decimal("-3.20"))),
            *(("£-3.2", Decimal("-3.2")), ("1 234 567 ¥", Decimal(1234567)), (".5\u00a0€", Decimal("0.5"))),
            *((12.5, Decimal("12.5")), ("1234567", Decimal(1234567)), ("1e3", Decimal(1000))),
        ],
        type=["1.234,50", "1,23", "12,34.5", "(1,234.50)", "5€30", "5 30", "five", "--5", ""],
    ),
    "currency_eu reads amounts with dots for thousands": Case(
        {"type": "decimal(12,4)", "clean": "currency_eu"},
        [
            *(("1.234,50 €", Decimal("1234.50")), ("-5,2", Decimal("-5.2")), ("1.234.567", Decimal(1234567))),
            *((1.234, Decimal("1.234")), (-7, Decimal(-7))),
        ],
        type=["1.5", "1,234.50", "12.34,5"],
    ),
    "only accepted texts pass": Case(
        {"type": "string", "accepted": ["new", "paid"]}, [("new", "new"), (None, None)], accepted=["New", ""]
    ),
    "only accepted numbers pass": Case({"type": "int", "accepted": ["1", "2"]}, [(1, 1)], accepted=[3]),
    "a number lies between its bounds or on them": Case(
        {"type": "int", "between": [-1, 5]}, [(-1, -1), (5, 5), (None, None)], between=[-2, 6], type=["x"]
    ),
    "bounds of decimals are exact": Case(
        {"type": MONEY, "between": [0.1, "1e3"]},
        [(0.1, Decimal("0.10")), (1000, Decimal(1000))],
        between=["0.09", "1000.01"],
    ),
    "bounds of doubles may be whole": Case({"type": "double", "between": [0, 0.5]}, [(0.5, 0.5)], between=[0.51, -1]),
    "bounds of dates are days": Case(
        {"type": "date", "between": [date(1, 1, 1), "2026-12-31"]},
        [("2026-12-31", date(2026, 12, 31)), ("0001-01-01", date(1, 1, 1))],
        between=["2027-01-01"],
    ),
    "bounds of times are of UTC unless they say": Case(
        {"type": "timestamp", "between": ["2026-01-01", "2026-01-02T01:00:00+01:00"]},
        [("2026-01-01T00:00:00Z", utc(2026, 1, 1)), ("2026-01-02T00:00:00Z", utc(2026, 1, 2))],
        between=["2025-12-31T23:59:59Z", "2026-01-02T00:00:01Z"],
    ),
    "a pattern is that of the whole text, after cleaning": Case(
        {"type": "string", "clean": "upper", "matches": r"[A-Z]{2}\d+|X"},
        [("ab1", "AB1"), ("X", "X"), (None, None)],
        matches=["ab1\n", " ab1", "ab1x", "xx", "", "ab1\nab1"],
    ),
    "a pattern fits values other than texts": Case(
        {"type": "date", "matches": "2026-.*"}, [("2026-01-01", date(2026, 1, 1))], matches=["2027-01-01"]
    ),
    "a repeated group does not overflow the stack": Case(
        {"type": "string", "matches": "(?:a|b)*"}, [("ab" * 100, "ab" * 100), (None, None)], matches=["ab" * 5000, "c"]
    ),
    "a possessive group has no limit": Case(
        {"type": "string", "matches": "(?:a|b)*+"}, [("ab" * 5000, "ab" * 5000)], matches=["c"]
    ),
    "a check rejects what is false and lets the unknown pass": Case(
        {"type": "int", "check": "{x} > 0"}, [(1, 1), (None, None)], check=[0]
    ),
    "a check that cannot be computed rejects its record, not the batch": Case(
        {"type": "int", "check": "10 / {x} > 1 AND 10 / {x} < 9 AND {x} * 1000000000 > 0"}, [(2, 2)], check=[0, 1, 3]
    ),
    "every broken rule of a column is named, in order": Case(
        {"type": "int", "accepted": ["1"], "between": [0, 1], "matches": r"\d", "check": "{x} < 9"},
        [(1, 1)],
        accepted_between_matches=[-9],
        accepted_between_check_matches=[10],
    ),
}


@pytest.fixture(scope="module")
def judged(spark) -> dict[str, list[Any]]:
    """What all columns make of their values, in one query: a record holds one value of each."""
    columns: dict[str, dict[str, Any]] = {}
    payloads: list[dict[str, Any]] = [{"id": 1} for _ in range(max(len(case.values) for case in CASES.values()))]
    for number, case in enumerate(CASES.values()):
        name = f"x{number}"
        columns[name] = {"from": name, **case.column, "check": case.column.get("check", "").replace("{x}", name)}
        for payload, (given, _) in zip(payloads, case.values, strict=False):
            payload[name] = given
    found = read(spark, silver(columns), *payloads)
    return {
        promise: [outcome(row, name) for row, _ in zip(found, case.values, strict=False)]
        for name, (promise, case) in zip(columns, CASES.items(), strict=True)
    }


def outcome(row: Row, name: str) -> Any:
    broken = [reason.partition(".")[2] for reason in row[REASONS] if reason.startswith(f"{name}.")]
    return Broken("_".join(broken)) if broken else row[name]


@pytest.mark.parametrize("promise", CASES)
def test_column(judged, promise):
    values = CASES[promise].values
    found = [(given, made, type(made)) for (given, _), made in zip(values, judged[promise], strict=True)]
    assert found == [(given, expected, type(expected)) for given, expected in values]


def test_every_cleaner_of_contracts_is_there():
    assert set(CLEANERS) == set(get_args(Cleaner))
