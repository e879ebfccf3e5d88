"""Files nobody here prepared, and damaged ones: good rows land, bad ones are quarantined, nothing is executed."""

from __future__ import annotations

import gzip
import io
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from lakehouse.batch import PUBLISHED
from lakehouse.catalog import coverage, table
from lakehouse.ledger import batches
from lakehouse.naming import quarantine_table
from lakehouse.query import run_sql
from tests.stack.foreign import DAY, Source, lines
from tests.stack.shop import in_session, interval

# It would end a text or a name in SQL, and then drop bronze; HERE stands for the source's own bronze table.
HOSTILE = "x'`; DROP TABLE lake.HERE; --"
ODD = """odd: {type: string, from: '"x''`; DROP TABLE lake.HERE; --"'}"""


@pytest.fixture
def source(stack, tmp_path) -> Iterator[Any]:
    opened: list[Source] = []

    def make(form: str, columns: str) -> Source:
        opened.append(Source(tmp_path, form, columns))
        return opened[-1]

    yield make
    for one in opened:
        one.shop.close()


def hostile_to(source: Source) -> str:
    """The hostile text that names the source's bronze table; the contract reads a field that is called so."""
    source.mended("HERE", source.shop.bronze)
    return HOSTILE.replace("HERE", source.shop.bronze)


def held(source: Source) -> int:
    """How many records bronze holds."""
    return int(run_sql(f"SELECT count(*) FROM {source.shop.bronze}")[1][0][0])


def reasons(source: Source) -> list[tuple[str, int, list[str]]]:
    """The file, the place and the reasons of each rejected record."""
    query = f"SELECT _source_file, _source_offset, _reasons FROM {quarantine_table(source.shop.silver)} ORDER BY ALL"
    return [(file.rsplit("/", 1)[1], offset, broken) for file, offset, broken in run_sql(query)[1]]


def taken(source: Source) -> dict[str, tuple[int, int | None]]:
    """Of each file, as the ledger will know it, how many records it has and how many of them are malformed."""
    files = source.shop.handovers[0].files
    return {file.uri.rsplit("/", 1)[1]: (file.rows, file.malformed) for file in files}


def first_ones(source: Source) -> dict[str, int]:
    """How many rows came of each file: of ids counted from 0 they are the first ones."""
    found: dict[str, list[int]] = defaultdict(list)
    for file, number in source.rows("_source_file, id"):
        found[file.rsplit("/", 1)[1]].append(number)
    assert all(ids == list(range(len(ids))) for ids in found.values())
    return {file: len(ids) for file, ids in found.items()}


def in_parquet(columns: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


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
    found = source(
        "json_lines",
        f"""
  id:    {{type: int, required: true, from: id}}
  {ODD}
  value: {{type: double, from: value}}
  at:    {{type: timestamp, from: at}}
""",
    )
    hostile, long = hostile_to(found), "z" * 10_000_000
    found.run(
        spark,
        {
            "empty.jsonl": b"",
            "bom.jsonl": b"\xef\xbb\xbf" + lines({"id": 1, hostile: hostile, hostile * 2: [{hostile: hostile}]}),
            f"{hostile}.jsonl": lines({"id": 2, hostile: None}, hostile.encode()),
            "mixed.jsonl": lines(
                {"id": 3, "value": 0.5},
                b'{"id": 4, "value": NaN}\n',
                {"id": 5, "value": "Infinity"},
                {"id": 6, "at": "0001-01-01T00:00:00Z"},
                {"id": 7, "at": "9999-12-31T23:59:59Z"},
                {"id": 8, "at": "10000-01-01T00:00:00Z"},
                b'{"id": 9, "id": 10}\n',
                b'{"id": 11, "odd": "\xff"}\n',
                b'{"id": 12, "odd": "a\x00b"}\n',
                {"id": 13, hostile: long},
            ),
        },
    )
    assert held(found) == 13, "bronze is there, with every record"
    texts = [(1, hostile, len(hostile)), *((n, None, None) for n in (2, 3, 6, 7)), (13, "z" * 99, len(long))]
    assert found.rows("id, left(odd, 99), length(odd)") == texts
    assert found.rows('"at"')[:2] == [
        (datetime.fromisoformat("0001-01-01T00:00:00+00:00"),),
        (datetime.fromisoformat("9999-12-31T23:59:59+00:00"),),
    ]
    assert reasons(found) == [
        ("mixed.jsonl", 1, ["record.malformed"]),
        ("mixed.jsonl", 2, ["value.type"]),
        ("mixed.jsonl", 5, ["at.type"]),
        *(("mixed.jsonl", place, ["record.malformed"]) for place in (6, 7, 8)),
        (f"{hostile}.jsonl", 1, ["record.malformed"]),
    ]


def test_hostile_csv_and_files_without_records_cost_only_the_records_that_are_bad(source, spark):
    columns = f"\n  id: {{type: int, required: true, from: id}}\n  name: {{type: string, from: name}}\n  {ODD}\n"
    found = source("csv", columns)
    hostile = hostile_to(found)
    files = {
        "bytes.csv": b"id,name\n2,a\x00b\n3,\xff\n4,d\n",
        "empty.csv": b"",
        "header.csv": b"id,name\n",
        "hostile.csv": f"id,{hostile}\n1,{hostile}\n".encode(),
    }
    found.run(spark, files)
    assert taken(found) == {"bytes.csv": (3, 1), "empty.csv": (0, 0), "header.csv": (0, 0), "hostile.csv": (1, 0)}
    assert held(found) == 4
    assert found.rows("id, name, odd") == [(1, None, hostile), (2, "a\0b", None), (4, "d", None)]
    assert reasons(found) == [("bytes.csv", 1, ["record.malformed"])]
    assert found.malformed() == ["invalid UTF-8"]


def test_hostile_parquet_with_numbers_and_times_that_no_reader_could_follow(source, spark):
    found = source(
        "parquet",
        f"""
  id:    {{type: bigint, required: true, from: id}}
  value: {{type: double, from: value}}
  at:    {{type: timestamp, from: at}}
  {ODD}
""",
    )
    hostile, epoch = hostile_to(found), datetime(1970, 1, 1, tzinfo=UTC)
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    # In microseconds: Python has no times beyond these two.
    begin, end = ((moment - epoch) // timedelta(microseconds=1) for moment in (first, last))
    columns = {
        "id": pa.array(range(8), pa.int64()),
        "value": pa.array([0.5, nan, inf, -inf, None, None, None, None], pa.float64()),
        "at": pa.array([begin, None, None, None, end, begin - 1, end + 1, None], pa.timestamp("us", "UTC")),
        hostile: pa.array([hostile, *[None] * 7], pa.string()),
    }
    found.run(spark, {"empty.parquet": b"", "strange.parquet": in_parquet(columns)})
    assert taken(found) == {"empty.parquet": (1, 1), "strange.parquet": (8, 0)}
    assert held(found) == 9
    good = [(0, 0.5, first, hostile), (4, None, last, None), (7, None, None, None)]
    assert found.rows('id, value, "at", odd') == good
    assert reasons(found) == [
        ("empty.parquet", 0, ["record.malformed"]),
        *(("strange.parquet", place, ["value.type"]) for place in (1, 2, 3)),
        *(("strange.parquet", place, ["at.type"]) for place in (5, 6)),
    ]
    assert found.malformed() == ["not a Parquet file, or a damaged one: it is empty"]


def test_packed_files_give_what_can_be_read_and_one_malformed_record_where_they_are_cut_off(source, spark):
    found = source("json_lines", "\n  id: {type: int, required: true, from: id}\n")
    # Zstandard gives whole blocks only: of random texts half a file has some.
    data = lines(*({"id": n, "text": Random(n).randbytes(128).hex()} for n in range(2000)))
    gz, zst = gzip.compress(data, mtime=0), zstandard.compress(data)
    files = {"cut.jsonl.gz": gz[: len(gz) // 2], "cut.jsonl.zst": zst[: len(zst) // 2], "whole.jsonl.zst": zst}
    found.run(spark, {**files, "none.jsonl.gz": gzip.compress(b"", mtime=0)})
    came = first_ones(found)
    cut = {file: came.pop(file) for file in sorted(came) if file.startswith("cut")}
    assert came == {"whole.jsonl.zst": 2000}
    assert [0 < count < 2000 for count in cut.values()] == [True, True]
    assert reasons(found) == [(file, count, ["record.malformed"]) for file, count in cut.items()]
    assert found.malformed() == [f"the {packing} stream is damaged or cut off" for packing in ("gzip", "zstd")]


def in_avro(codec: str) -> bytes:
    """2,000 rows with an id, in blocks of some hundred."""
    schema = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}
    file = io.BytesIO()
    fastavro.writer(file, schema, [{"id": n} for n in range(2000)], codec=codec, sync_interval=1000)
    return file.getvalue()


def test_avro_gives_every_row_before_the_end_of_a_file_that_is_cut_off(source, spark):
    found = source("avro", "\n  id: {type: bigint, required: true, from: id}\n")
    whole = {codec: in_avro(codec) for codec in ("deflate", "zstandard")}
    files = {f"{codec}.avro": data for codec, data in whole.items()}
    files |= {f"cut_{codec}.avro": data[: len(data) // 2] for codec, data in whole.items()}
    found.run(spark, files)
    came = first_ones(found)
    cut = {file: came.pop(file) for file in sorted(came) if file.startswith("cut")}
    assert came == dict.fromkeys(("deflate.avro", "zstandard.avro"), 2000)
    assert [0 < count < 2000 for count in cut.values()] == [True, True]
    assert reasons(found) == [(file, count, ["record.malformed"]) for file, count in cut.items()]
    assert all(told.startswith("not an Avro file, or a damaged one: ") for told in found.malformed())


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
    whole = in_parquet(columns)
    found.run(spark, {"cut.parquet": whole[:-200], "whole.parquet": whole})
    assert found.rows("id, last") == [(0, Decimal("1.250")), (1, None)]
    assert found.rejected() == [("cut.parquet", ["record.malformed"])]
    assert "Parquet" in found.malformed()[0]


@pytest.mark.full
def test_a_contract_of_a_thousand_columns_over_a_file_of_as_many(source, spark):
    kinds = [("bigint", [1, 2**62]), ("string", ["a", "ä"]), ("date", [date(2026, 1, 31), date(1, 1, 1)])]
    of_column = {f"c{n}": kinds[n % len(kinds)] for n in range(999)}
    contract = "".join(f"  {name}: {{type: {kind}, from: {name}}}\n" for name, (kind, _) in of_column.items())
    found = source("parquet", f"\n{contract}  c999: {{type: bigint, required: true, from: c999}}\n")
    columns = {name: [*values, values[0]] for name, (_, values) in of_column.items()}
    found.run(spark, {"wide.parquet": in_parquet({**columns, "c999": ["1", "2", "x"]})})
    first, second = zip(*(values for _, values in of_column.values()), strict=True)
    assert found.rows(f"c999, {', '.join(of_column)}") == [(1, *first), (2, *second)]
    assert reasons(found) == [("wide.parquet", 2, ["c999.type"])]


def test_intervals_without_a_record_are_published_as_empty_and_done_once(source, spark):
    found = source("json_lines", "\n  id: {type: int, required: true, from: id}\n")
    days = [DAY + timedelta(n) for n in range(3)]
    shop, bare = found.shop, {"empty.jsonl": b"\n\n"}
    for day, files in zip(days, ({}, bare, {}), strict=True):  # without a table yet, with a file, with a table
        found.run(spark, files, day)
    for dataset in shop.datasets:
        assert run_sql(f"SELECT count(*) FROM {dataset}")[1] == [(0,)]
        assert [interval(day) in coverage(table(dataset)) for day in days] == [True] * 3
        done = [(batch.state, batch.counts["rows_in"]) for batch in batches.recent(dataset)]
        assert done == [(PUBLISHED, 0)] * 3
    before = shop.state()
    assert [shop.run(dataset, day, in_session(spark)) for day in days for dataset in shop.datasets] == [None] * 6
    assert shop.state() == before
