"""Files nobody here prepared, and damaged ones: good rows land, bad ones are quarantined, nothing is executed."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.query import run_sql
from tests.stack.foreign import Source, lines


@pytest.fixture
def source(stack, tmp_path) -> Iterator[Any]:
    opened: list[Source] = []

    def make(form: str, columns: str) -> Source:
        opened.append(Source(tmp_path, form, columns))
        return opened[-1]

    yield make
    for one in opened:
        one.shop.close()


def test_nested_camel_case_json_with_money_and_european_dates(source, spark):
    found = source(
        "json_lines",
        """
  order_no:   {type: string, required: true, from: orderHeader.orderNo, matches: '[A-Z]{2}-[0-9]+'}
  total:      {type: "decimal(12,2)", required: true, from: orderHeader.totalAmount, clean: currency_eu}
  placed_on:  {type: date, required: true, from: orderHeader.placedOn, formats: dd/MM/yyyy}
  first_sku:  {type: string, from: 'lineItems[0].skuCode', clean: upper}
  lines_cost: {type: "decimal(12,2)", expr: total * 0.9}
""",
    )
    head = {"orderNo": "DE-17", "totalAmount": "1.234,50 €", "placedOn": "31/01/2026"}
    found.run(
        spark,
        {
            "export.jsonl": lines(
                {"orderHeader": head, "lineItems": [{"skuCode": "ab1"}]},
                {"orderHeader": head | {"orderNo": "17"}},
                {"orderHeader": head | {"placedOn": "31/02/2026"}},
            )
        },
    )
    columns = "order_no, total, placed_on, first_sku, lines_cost"
    assert found.rows(columns) == [("DE-17", Decimal("1234.50"), date(2026, 1, 31), "AB1", Decimal("1111.05"))]
    assert found.rejected() == [("export.jsonl", ["order_no.matches"]), ("export.jsonl", ["placed_on.type"])]


def test_hostile_json_lands_where_it_is_good_and_nothing_is_executed(source, spark):
    hostile = "x`; DROP TABLE lake.bronze.y; --"
    found = source(
        "json_lines",
        f"""
  id:    {{type: int, required: true, from: id}}
  odd:   {{type: string, from: '"{hostile}"'}}
  value: {{type: double, from: value}}
  at:    {{type: timestamp, from: at}}
""",
    )
    long = "z" * 10_000_000
    found.run(
        spark,
        {
            "empty.jsonl": b"",
            "bom.jsonl": b"\xef\xbb\xbf" + lines({"id": 1, hostile: hostile}),
            "mixed.jsonl": lines(
                {"id": 2, "value": 0.5},
                b'{"id": 3, "value": NaN}\n',
                {"id": 4, "value": "Infinity"},
                {"id": 5, "at": "0001-01-01T00:00:00Z"},
                {"id": 6, "at": "9999-12-31T23:59:59Z"},
                {"id": 7, "at": "10000-01-01T00:00:00Z"},
                b'{"id": 8, "id": 9}\n',
                b'{"id": 10, "odd": "\xff"}\n',
                b'{"id": 11, "odd": "a\x00b"}\n',
                {"id": 12, hostile: long},
            ),
        },
    )
    assert [row[0] for row in found.rows("id")] == [1, 2, 5, 6, 12]
    assert found.rows("odd, length(odd)")[0:1] == [(hostile, len(hostile))]
    assert [row for row in found.rows("length(odd)") if row[0] == len(long)] == [(len(long),)]
    assert found.rows('"at"')[0:2] == [
        (datetime.fromisoformat("0001-01-01T00:00:00+00:00"),),
        (datetime.fromisoformat("9999-12-31T23:59:59+00:00"),),
    ]
    assert sorted(reasons for _, reasons in found.rejected()) == [
        ["at.type"],
        *[["record.malformed"]] * 4,
        ["value.type"],
    ]


def test_damaged_and_empty_files_give_what_can_be_read(source, spark):
    found = source("json_lines", "\n  id: {type: int, required: true, from: id}\n")
    packed = gzip.compress(lines(*({"id": n} for n in range(2000))), mtime=0)
    found.run(spark, {"cut.jsonl.gz": packed[: len(packed) // 2], "none.jsonl.gz": gzip.compress(b"", mtime=0)})
    good = found.rows("id")
    assert 0 < len(good) < 2000
    assert [row[0] for row in good] == list(range(len(good)))
    assert found.rejected() == [("cut.jsonl.gz", ["record.malformed"])]
    assert "gzip" in found.malformed()[0]


def test_csv_with_an_open_quote_and_short_records(source, spark):
    found = source("csv", "\n  id: {type: int, required: true, from: id}\n  name: {type: string, from: name}\n")
    text = '\ufeffid,name\n1,"a, ""b"""\n2\n3,"never closed\n4,d\n'
    found.run(spark, {"people.csv": text.encode()})
    assert found.rows("id, name") == [(1, 'a, "b"'), (4, "d")]
    assert found.rejected() == [("people.csv", ["record.malformed"])] * 2
    assert len(found.malformed()) == 2


def test_parquet_with_a_thousand_columns_and_one_that_is_cut_off(source, spark):
    found = source(
        "parquet",
        "\n  id: {type: bigint, required: true, from: c0}\n"
        '  last: {type: "decimal(20,3)", from: c999}\n  at: {type: timestamp, from: at}\n',
    )
    columns: dict[str, Any] = {f"c{n}": pa.array([n, n + 1], pa.int64()) for n in range(999)}
    columns["c999"] = pa.array([Decimal("1.250"), None], pa.decimal128(20, 3))
    columns["at"] = pa.array([datetime(2026, 1, 1), None], pa.timestamp("us", "UTC"))  # noqa: DTZ001
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    whole = buffer.getvalue()
    found.run(spark, {"cut.parquet": whole[:-200], "whole.parquet": whole})
    assert found.rows("id, last") == [(0, Decimal("1.250")), (1, None)]
    assert found.rejected() == [("cut.parquet", ["record.malformed"])]
    assert "Parquet" in found.malformed()[0]


def test_an_interval_without_rows_is_published_as_empty(source, spark):
    found = source("json_lines", "\n  id: {type: int, required: true, from: id}\n")
    found.run(spark, {"empty.jsonl": b"\n\n"})
    assert run_sql(f"SELECT count(*) FROM {found.shop.silver}")[1] == [(0,)]
