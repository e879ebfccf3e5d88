"""From raw records to typed rows: what is a record at all, and where in it a value is found."""

from __future__ import annotations

from decimal import Decimal
from typing import get_args
from zlib import crc32

import pytest
from pyspark.sql import functions as F

from lakehouse.contracts.fields import Cleaner
from spark_jobs.parsing import CONTENT, DELETED, REASONS, parsed
from tests.spark.raw_records import (
    MONEY,
    Token,
    change,
    frame,
    orders,
    read,
    reasons,
    silver,
    utc,
)


def test_a_good_order_becomes_a_typed_row(spark):
    (row,) = read(spark, orders(), change())
    assert row[REASONS] == []
    assert row[DELETED] is False
    assert (row["order_id"], row["quantity"], row["amount"]) == (7, 3, Decimal("1234.50"))
    assert (row["ordered_at"], row["updated_at"]) == (utc(2026, 1, 1, 11), utc(2026, 1, 1, 12))


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


@pytest.mark.full
def test_a_contract_may_have_a_thousand_columns(spark):
    kinds = {"int": 5, "string": "x", MONEY: "1.25", "timestamp": "2026-01-01T00:00:00Z", "double": 2.5}
    columns = {f"c{n}": (list(kinds)[n % len(kinds)], n % 2 == 0) for n in range(1000)}
    contract = silver({c: {"type": kind, "from": c, "required": needed} for c, (kind, needed) in columns.items()})
    good = {"id": 1} | {column: kinds[kind] for column, (kind, _) in columns.items()}
    found = read(spark, contract, good, {"id": 1})
    assert [len(row[REASONS]) for row in found] == [0, 500]
    assert found[0]["c999"] == 2.5
