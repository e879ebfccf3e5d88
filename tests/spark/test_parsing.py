"""From raw records to typed rows: each rule, by what it says of a record that keeps it and of one that breaks it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, get_args
from zlib import crc32

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lakehouse.contracts import Silver, load
from lakehouse.contracts.fields import Cleaner
from lakehouse.settings import ROOT
from spark_jobs.casting import CLEANERS
from spark_jobs.parsing import CONTENT, DELETED, REASONS, parsed

END = datetime(2026, 1, 2, tzinfo=UTC)
NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z, in milliseconds
LAYERED = {
    "sla": {"ready_within": "1h"},
    "retention": {"snapshots": "7d"},
    "maintenance": {"tier": "daily"},
}
ORDER = {
    "id": 7,
    "customer_id": 1,
    "product_id": 2,
    "category": "toys",
    "region": "north",
    "quantity": 3,
    "amount": "$1,234.50",
    "status": "new",
    "ordered_at": "2026-01-01T11:00:00Z",
}


@pytest.fixture(autouse=True)
def _no_call_sites(monkeypatch):
    """Each call of pyspark's would ask the JVM several times over where it stands, for the sake of error messages."""
    monkeypatch.setattr("pyspark.errors.utils._enable_debugging_cache", False)


class Token(str):
    """A value as it is written in JSON."""

    __slots__ = ()


class Broken(str):
    """The names of the rules that a value breaks, with _ between them."""

    __slots__ = ()


def silver(columns: dict[str, dict[str, Any]], **more: Any) -> Silver:
    """A contract with the given columns beside its key."""
    key = {"id": {"type": "bigint", "required": True, "from": "id"}}
    return Silver.model_validate(
        {
            "dataset": "silver.things",
            "description": "Things.",
            "owner": "team",
            "start": "2026-01-01",
            "reads": "bronze.things",
            "columns": key | columns,
            "key": ["id"],
            "newest_by": ["_source_offset"],
            **LAYERED,
            **more,
        }
    )


def orders() -> Silver:
    found = load(ROOT / "include/contracts").contracts["silver.orders"]
    assert isinstance(found, Silver)
    return found


def written(record: dict[str, Any]) -> str:
    tokens = {name: value if isinstance(value, Token) else json.dumps(value) for name, value in record.items()}
    return "{" + ", ".join(f"{json.dumps(name)}: {token}" for name, token in tokens.items()) + "}"


def frame(spark, *payloads: Any) -> DataFrame:
    """Bronze rows of payloads, which are texts or become JSON."""
    texts = [payload if isinstance(payload, str | None) else written(payload) for payload in payloads]
    rows = [(number, text, f"file-{number}") for number, text in enumerate(texts)]
    return spark.createDataFrame(rows, "_source_offset bigint, _raw_payload string, _source_file string")


def read(spark, contract: Silver, *payloads: Any) -> list[Row]:
    late_before = F.lit(END - contract.late_data) if contract.late_data else None
    return parsed(frame(spark, *payloads), contract, late_before).orderBy("_source_offset").collect()


def reasons(spark, contract: Silver, *payloads: Any) -> list[list[str]]:
    return [row[REASONS] for row in read(spark, contract, *payloads)]


def change(op: str = "u", ts_ms: Any = NOON, **after: Any) -> dict[str, Any]:
    return {"op": op, "ts_ms": ts_ms, "before": None, "after": {**ORDER, **after}}


def utc(*parts: int) -> datetime:
    """A time as collected rows hold it: of UTC, without saying so."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


def test_a_good_order_becomes_a_typed_row(spark):
    (row,) = read(spark, orders(), change())
    assert row[REASONS] == []
    assert row[DELETED] is False
    assert (row["order_id"], row["quantity"], row["amount"]) == (7, 3, Decimal("1234.50"))
    assert (row["ordered_at"], row["updated_at"]) == (utc(2026, 1, 1, 11), utc(2026, 1, 1, 12))


class Case:
    """A column, values with what it makes of them, and values that break its rules, by the rules' names."""

    def __init__(self, column: dict[str, Any], good: list[tuple[Any, Any]], **broken: list[Any]) -> None:
        self.column = column
        rejected = [(value, Broken(rules)) for rules, values in broken.items() for value in values]
        self.values = [*good, *rejected]


MONEY = "decimal(12,2)"
DIGITS = "1234567890" * 3 + "12345678"
TINY = "0.0000000000000000000000000001"
THIRD = Token("0." + "3" * 400)
HUGE = Token("1" * 400)
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
        type=["2026-01-31", "31/02/2026", "31/01/10000", "31/01/-1", "31/01/0000"],
    ),
    "each accepted form of a time is read and no other": Case(
        {"type": "timestamp", "formats": ["yyyy-MM-dd'T'HH:mm:ssX", "dd/MM/yyyy HH:mm"]},
        [
            ("2026-01-01T12:00:00Z", utc(2026, 1, 1, 12)),
            ("2026-01-01T12:00:00+02", utc(2026, 1, 1, 10)),
            ("01/02/2026 12:30", utc(2026, 2, 1, 12, 30)),
        ],
        type=["2026-01-01 12:00:00", "01/13/2026 12:30", "2026-02-30T00:00:00Z", "", "soon", NOON],
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


def test_a_parsed_row_has_the_columns_of_bronze_and_of_the_contract_and_no_scaffolding(spark):
    contract = silver({"y": {"type": "int", "expr": "id + 1"}, "x": {"type": "int", "from": "x"}}, delete_when="x = 1")
    found = parsed(frame(spark), contract).columns
    assert found == ["_source_offset", "_raw_payload", "_source_file", DELETED, "id", "y", "x", CONTENT, REASONS]


def test_what_is_not_one_json_object_is_malformed_and_nothing_else_is_said_of_it(spark):
    payloads = [
        '{"op": "u", "after": {"id": 7',
        *("[]", '[{"id": 1}]', "7", '"text"', "null", "", "   ", "garbage", None),
        *("{id: 1}", "{'id': 1}", '{"id": +1}', '{"id": 01}', '{"id": 1,}'),
        *('{"id": NaN}', '{"id": Infinity}', '{"id": -Infinity}'),
        *('{"id": 1, "id": 2}', '{"id": 1, "a": {"b": 1, "b": 1}}', '{"id": 1, "\\u0069d": 2}'),
        *('{"id": 1}}', '{"id": 1} garbage', '{"id": 1}{"id": 2}', '{"id": 1}, {"id": 2}', '{"id": 1},', '{"id": 1}]'),
        *("\\x7b\\xff", '\ufeff{"id": 1}', '{"id": "a\x00"}', '{"id": 1}\x00', '{"id": "a\tb"}'),
        *('{"id": "\\ud800"}', '{"id": "\\uDC00"}', '{"id": "\\\\\\ud83d\\ude00\\ud83d"}'),
        # Numbers that are too long must be found, and told apart from texts that look like them.
        '{"id": ' + "0" * 50 + "}",
        '{"id": "a: ' + "1" * 50 + ', b", "b": ' + "1" * 50 + "}",
        *('{"id": 1, "x": ' + "[" * depth + "]" * depth + "}" for depth in (100, 998, 5000)),
        '{"id": 1, "x": ' + '{"x":' * 990 + "1" + "}" * 991,
    ]
    found = reasons(spark, silver({"x": {"type": "int", "required": True, "from": "x"}}), *payloads)
    assert dict(zip(payloads, found, strict=True)) == {payload: ["record.malformed"] for payload in payloads}


def test_what_the_reader_found_malformed_is_malformed(spark):
    rows = frame(spark, {"id": 1, "x": 0}, {"id": 1, "x": 0}, {"id": 1, "x": 1})
    known = F.when(F.col("_source_offset") == 0, F.lit("The line has 3 fields, not 4."))
    contract = silver({"x": {"type": "int", "from": "x", "check": "x > 0"}})
    found = parsed(rows.withColumn("_malformed", known), contract).orderBy("_source_offset").collect()
    assert [row[REASONS] for row in found] == [["record.malformed"], ["x.check"], []]


def test_good_records_beside_malformed_ones_are_read(spark):
    deep = "[" * 99 + '"' + "[{" * 200 + '"' + "]" * 99
    wide = "[" + ",".join(["{}"] * 1000) + "]"
    payloads = [
        ' \t{"id": 1}\r ',
        "garbage",
        '{"id"\t:\n1, "x": ": ' + "1" * 50 + '}, "}',
        *({"id": 1, "x": value} for value in (Token(deep), Token(wide), [10**50, "b"])),
    ]
    found = read(spark, silver({"x": {"type": "string", "from": "x"}}), *payloads)
    assert [row[REASONS] for row in found] == [[], ["record.malformed"], [], [], [], []]
    assert [row["x"] for row in found[2:]] == [": " + "1" * 50 + "}, ", deep, wide, f'["{10**50}","b"]']


@pytest.mark.timeout(600, method="thread")
def test_values_of_great_length_are_read_or_rejected_before_long(spark):
    kinds = ("string", "int", "decimal(38,10)", "double", "timestamp", "date", "boolean")
    columns = {f"c{number}": {"type": kind, "from": "x"} for number, kind in enumerate(kinds)}
    columns |= {cleaner: {"type": MONEY, "from": "x", "clean": cleaner} for cleaner in get_args(Cleaner)}
    texts = ["a" * 10_000_000, *(text * 500_000 for text in (" ", "1", "\\"))]
    values = [*texts, "1." + "0" * 500_000, "1,234" * 100_000, "[" * 500_000]
    rows = parsed(frame(spark, *({"id": 1, "x": value} for value in values)), silver(columns))
    found = rows.select(F.crc32("c0").alias("sum"), REASONS).collect()
    assert [row["sum"] for row in found] == [crc32(value.encode()) for value in values]
    assert [row for row in found if "c2.type" not in row[REASONS]] == []


def test_a_required_value_must_be_there(spark):
    contract = silver({"x": {"type": "string", "required": True, "from": "a.x"}})
    missing = [{"id": 1}, {"id": 1, "a": None}, {"id": 1, "a": {}}, {"id": 1, "a": {"x": None}}, {"id": 1, "a": 5}]
    found = reasons(spark, contract, *missing, {"id": 1, "a": {"x": ""}})
    assert found == [*[["x.required"]] * len(missing), []]


def test_every_broken_rule_is_named_in_order(spark):
    bad = change(customer_id=None, product_id="p", quantity=0, amount="-1", status="lost", ordered_at="soon", ts_ms=0)
    assert reasons(spark, orders(), bad) == [
        [
            "amount.check",
            "customer_id.required",
            "ordered_at.type",
            "product_id.type",
            "quantity.check",
            "record.late",
            "status.accepted",
        ]
    ]


def test_of_several_paths_the_first_with_a_value_counts(spark):
    column = {"type": "string", "from": ["after.x", "before.x"]}
    contract = silver({"x": column, "y": {**column, "clean": "empty_to_null"}})
    payloads = [
        {"id": 1, "after": {"x": "new"}, "before": {"x": "old"}},
        {"id": 1, "after": {"x": None}, "before": {"x": "old"}},
        {"id": 1, "after": None, "before": {"x": "old"}},
        {"id": 1, "after": {"x": " "}, "before": {"x": "old"}},
        {"id": 1},
    ]
    found = read(spark, contract, *payloads)
    assert [row["x"] for row in found] == ["new", "old", "old", " ", None]
    assert [row["y"] for row in found] == ["new", "old", "old", "old", None]


NAMES = ["it's", 'a "b"', "a`b", " a b ", "a]b", "$", "*", "a\\b", "ä😀", 'it\'s "it"', ";DROP TABLE x", "a?b", "'; --"]
ODD_NAMES = [*NAMES, "a.b", "a[0]", "[0]", "", '"', "'", "'\".[", "a'][0]['b", "a\nb", "\\", '\\"', "${x}", "x'] = 1"]


def quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_a_path_may_hold_any_name_in_quotes_and_most_without(spark):
    plain = {f"p{n}": (name, f"outer.{name}.in") for n, name in enumerate(NAMES)}
    odd = {f"q{n}": (name, f"outer.{quoted(name)}.in") for n, name in enumerate(ODD_NAMES)}
    columns = plain | odd
    contract = silver({column: {"type": "string", "from": path} for column, (_, path) in columns.items()})
    names = {name for name, _ in columns.values()}
    (row,) = read(spark, contract, {"id": 1, "outer": {name: {"in": f"<{name}>"} for name in names}})
    assert {column: row[column] for column in columns} == {column: f"<{name}>" for column, (name, _) in columns.items()}


def test_elements_of_lists_are_read_by_their_place(spark):
    paths = ["items[0].sku", "items[1].sku", "items[9].sku", "grid[1][0]", '"a.b"[0]', "id[0]", "items.sku"]
    contract = silver({f"x{n}": {"type": "string", "from": path} for n, path in enumerate(paths)})
    record = {"id": 1, "items": [{"sku": "a"}, {"sku": "b"}], "grid": [[1], [2]], "a.b": ["c"]}
    (row,) = read(spark, contract, record)
    assert [row[f"x{n}"] for n in range(len(paths))] == ["a", "b", None, "2", "c", None, None]


def test_names_are_told_apart_by_case(spark):
    contract = silver({"x": {"type": "string", "from": "Name"}})
    assert [row["x"] for row in read(spark, contract, {"id": 1, "name": "small", "Name": "big"})] == ["big"]


def test_an_expression_is_computed_from_columns_wherever_and_expressions_above(spark):
    contract = silver(
        {
            "net": {"type": MONEY, "expr": "price * (1 - coalesce(discount, 0))"},
            "gross": {"type": MONEY, "expr": "Net * 1.2", "between": [0, 100]},
            "file": {"type": "string", "expr": "upper(_source_file)", "matches": "FILE-[0-3]"},
            "price": {"type": MONEY, "from": "price"},
            "discount": {"type": MONEY, "from": "discount"},
            "day": {"type": "date", "expr": "`day_text`", "required": True},
            "day_text": {"type": "string", "from": "day"},
            "rate": {"type": "double", "expr": "100 / price", "check": "rate < 100", "required": True},
            "half_rate": {"type": "double", "expr": "100 / price / 2"},
            "size": {"type": "int", "expr": "price * 1000000000"},
        }
    )
    good = {"id": 1, "price": "10", "discount": 0.5, "day": "2026-01-31"}
    broken = (
        {"day": "2026-02-31", "price": 100},
        {"day": None, "price": 0},
        {"price": 1, "discount": 0},
        {"price": None},
    )
    first, *others = read(spark, contract, {**good, "price": "2"}, *({**good, **change} for change in broken))
    assert first[REASONS] == []
    assert (first["net"], first["gross"], first["file"]) == (Decimal("1.00"), Decimal("1.20"), "FILE-0")
    assert (first["day"], first["rate"], first["size"]) == (date(2026, 1, 31), 50.0, 2_000_000_000)
    assert [row[REASONS] for row in others] == [
        ["day.type", "size.type"],
        ["day.required", "half_rate.expr", "rate.expr"],
        ["rate.check"],
        ["file.matches", "rate.required"],
    ]


def test_an_expression_cannot_use_one_below_it(spark):
    contract = silver({"a": {"type": "int", "expr": "b + 1"}, "b": {"type": "int", "expr": "1"}})
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        parsed(frame(spark), contract)


def test_a_rule_across_columns_rejects_what_is_false_or_fails_and_lets_the_unknown_pass(spark):
    contract = silver(
        {"x": {"type": "int", "from": "x", "check": "x >= 0"}, "y": {"type": "int", "from": "y"}},
        rules={"ordered": "x <= y", "share": "y / x < 10"},
        delete_when="gone = 'yes'",
    )
    payloads = [
        {"id": 1, "x": 1, "y": 2},
        {"id": 1, "x": 3, "y": 2},
        {"id": 1, "x": 3},
        {"id": 1, "x": 0, "y": 2},
        {"id": 1, "x": -1, "y": -20},
        {"id": 1, "x": 0, "y": -1, "gone": "yes"},
    ]
    assert reasons(spark, contract, *payloads) == [
        [],
        ["rule.ordered"],
        [],
        ["rule.share"],
        ["rule.ordered", "rule.share", "x.check"],
        [],
    ]


def test_a_delete_is_checked_on_its_key_and_its_time_only(spark):
    gone = {"op": "d", "ts_ms": NOON, "before": {"id": 7}, "after": None}
    deletes = [
        gone,
        {**gone, "before": {"id": "x"}},
        {**gone, "before": None, "ts_ms": None},
        {**gone, "after": {"id": 7, "quantity": -1, "status": "lost"}},
    ]
    found = read(spark, orders(), *deletes)
    assert [(row["order_id"], row[DELETED], row[REASONS]) for row in found] == [
        (7, True, []),
        (None, True, ["order_id.type"]),
        (None, True, ["order_id.required", "updated_at.required"]),
        (7, True, []),
    ]


def test_a_condition_for_deletes_reads_the_record_and_leaves_its_texts_alone(spark):
    cases = [
        ("op = 'd'", {"op": "d"}),
        ('`op` = "d"', {"op": "d"}),
        ("lower(op) IN ('d', 'x') AND NOT (op = 'c' OR op = 'u')", {"op": "X"}),
        ("source.table = 'gone and op'", {"source": {"table": "gone and op"}}),
        ("`source.my table` = 'x'", {"source": {"my table": "x"}}),
        ("`\"a.b\".ops[0]` = 'it\\'s op'", {"a.b": {"ops": ["it's op"]}}),
        ("`' OR true --` = 'x'", {"' OR true --": "x"}),
        ("gone = 'true' AND op IS NULL", {"gone": True}),
        ("n > 5 AND n < 1e3", {"n": 6}),
    ]
    other = {"id": 2, "op": "c", "n": 5}
    frames = [
        parsed(frame(spark, {"id": 1, **record}, other), silver({}, delete_when=condition)).select(
            F.lit(condition).alias("condition"), "id", DELETED
        )
        for condition, record in cases
    ]
    found = {(row["condition"], row["id"]): row[DELETED] for row in reduce(DataFrame.union, frames).collect()}
    assert found == {(condition, key): key == 1 for condition, _ in cases for key in (1, 2)}


def test_a_record_of_which_nobody_can_say_whether_it_is_a_delete_is_rejected(spark):
    contract = silver({}, delete_when="n > 5")
    found = read(spark, contract, {"id": 1, "n": 6}, {"id": 1, "n": "many"}, {"id": 1})
    assert [(row[DELETED], row[REASONS]) for row in found] == [
        (True, []),
        (False, ["record.delete_when"]),
        (False, []),
    ]


def test_without_a_condition_nothing_is_a_delete(spark):
    assert [row[DELETED] for row in read(spark, silver({}), {"id": 1, "op": "d"})] == [False]


def test_a_change_is_late_by_its_own_time_and_not_at_the_limit(spark):
    limit = NOON + 12 * 3_600_000 - 3 * 86_400_000
    old = "2020-01-01T00:00:00Z"
    payloads = [change(ts_ms=limit), change(ts_ms=limit - 1), change(ordered_at=old), change("d", ts_ms=limit - 1)]
    assert reasons(spark, orders(), *payloads) == [[], ["record.late"], [], ["record.late"]]


def test_each_row_has_its_own_limit_and_without_one_nothing_is_late(spark):
    rows = frame(spark, change(ts_ms=0), change(ts_ms=0))
    limit = F.when(F.col("_source_offset") == 0, F.lit(END))
    found = parsed(rows, orders(), limit).union(parsed(rows, orders())).collect()
    assert [row[REASONS] for row in found] == [["record.late"], [], [], []]


@pytest.mark.full
def test_a_contract_may_have_a_thousand_columns(spark):
    kinds = {"int": 5, "string": "x", MONEY: "1.25", "timestamp": "2026-01-01T00:00:00Z", "double": 2.5}
    columns = {f"c{n}": (list(kinds)[n % len(kinds)], n % 2 == 0) for n in range(1000)}
    contract = silver({c: {"type": kind, "from": c, "required": needed} for c, (kind, needed) in columns.items()})
    good = {"id": 1} | {column: kinds[kind] for column, (kind, _) in columns.items()}
    found = read(spark, contract, good, {"id": 1})
    assert [len(row[REASONS]) for row in found] == [0, 500]
    assert found[0]["c999"] == 2.5
