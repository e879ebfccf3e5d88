"""Parquet and Avro: values exactly as they are, as JSON; damage is one record, behind those before it."""

from __future__ import annotations

import gzip
import io
import json
import uuid
from copy import deepcopy
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from fastavro.read import HEADER_SCHEMA

from spark_jobs.readers import columns
from spark_jobs.readers.values import clock, day, encoded, moment
from tests.spark.reading import read

GZIP = "the gzip stream is damaged or cut off"
PARQUET = "not a Parquet file, or a damaged one: "
AVRO = "not an Avro file, or a damaged one: "
MARK = bytes(range(16))
NUMBERS = {"type": "record", "name": "row", "fields": [{"name": "n", "type": "long"}]}


def parquet(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def avro(schema: Any, *rows: Any, per_block: int = 1000) -> bytes:
    """An Avro file of the rows as they are stored, whatever the schema says that they mean."""
    file, stored = io.BytesIO(), fastavro.parse_schema(_without_meaning(schema))
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"null"}
    fastavro.schemaless_writer(file, HEADER_SCHEMA, {"magic": b"Obj\x01", "meta": meta, "sync": MARK})
    for start in range(0, len(rows), per_block):
        block = io.BytesIO()
        for row in rows[start : start + per_block]:
            fastavro.schemaless_writer(block, stored, row)
        fastavro.schemaless_writer(file, "long", len(rows[start : start + per_block]))
        fastavro.schemaless_writer(file, "bytes", block.getvalue())
        file.write(MARK)
    return file.getvalue()


def _without_meaning(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_meaning(part) for part in schema]
    if isinstance(schema, dict):
        return {name: _without_meaning(part) for name, part in schema.items() if name != "logicalType"}
    return deepcopy(schema)


def values(form: str, data: bytes) -> list[Any]:
    """The values of column v, from a file that has nothing but good rows."""
    found = read(form, data)
    assert [(offset, reason) for _, offset, reason in found] == [(number, None) for number in range(len(found))]
    return [json.loads(payload)["v"] for payload, _, _ in found]


def in_parquet(given: list, kind: pa.DataType, **options: Any) -> list[Any]:
    return values("parquet", parquet(pa.table({"v": pa.array(given, kind)}), **options))


def in_avro(kind: Any, *given: Any) -> list[Any]:
    schema = {"type": "record", "name": "row", "fields": [{"name": "v", "type": kind}]}
    return values("avro", avro(schema, *({"v": value} for value in given)))


def counted(rows: int, **options: Any) -> bytes:
    return parquet(pa.table({"n": range(rows)}), **options)


def numbers(*expected: int) -> list[tuple]:
    return [(f'{{"n":{number}}}', place, None) for place, number in enumerate(expected)]


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = {
    datetime(2026, 7, 29, 1, 2, 3, tzinfo=UTC): "2026-07-29T01:02:03",
    datetime(2026, 7, 29, 1, 2, 3, 40, tzinfo=UTC): "2026-07-29T01:02:03.000040",
    datetime(1, 1, 1, tzinfo=UTC): "0001-01-01T00:00:00",
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC): "1969-12-31T23:59:59.999999",
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC): "9999-12-31T23:59:59",
}
TEXTS = list(TIMES.values())
STORED = [(given - EPOCH) // timedelta(microseconds=1) for given in TIMES]


def test_whole_numbers_are_exact():
    assert in_parquet([2**63 - 1, -(2**63), None], pa.int64()) == [2**63 - 1, -(2**63), None]
    assert in_parquet([2**64 - 1], pa.uint64()) == [2**64 - 1]
    assert in_avro(["null", "long"], 2**63 - 1, -(2**63), None) == [2**63 - 1, -(2**63), None]


def test_decimals_are_texts_with_all_their_digits():
    given = [Decimal("12345678901234567890123456789012345.678"), Decimal("-0.001"), Decimal("0.000"), None]
    expected = ["12345678901234567890123456789012345.678", "-0.001", "0.000", None]
    assert in_parquet(given, pa.decimal128(38, 3)) == expected
    assert in_parquet([Decimal("0.0000000001")], pa.decimal128(20, 10)) == ["0.0000000001"]
    assert in_parquet([Decimal(10) ** 75], pa.decimal256(76, 0)) == ["1" + "0" * 75]


def test_avro_decimals_keep_digits_that_their_precision_would_round_away():
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 3}
    many = 1234567890123456789012345678901234567890
    given = [number.to_bytes(17, "big", signed=True) for number in (many, -1, 0)]
    assert in_avro(kind, *given) == ["1234567890123456789012345678901234567.890", "-0.001", "0.000"]
    fixed = {"type": "fixed", "name": "f", "size": 2, "logicalType": "decimal", "precision": 2}
    assert in_avro(fixed, b"\xff\xfe", b"\x7f\xff") == ["-2", "32767"]


def test_times_are_iso_8601_with_z_where_they_are_utc():
    in_utc = [f"{text}Z" for text in TEXTS]
    assert in_parquet(STORED, pa.timestamp("us")) == TEXTS
    assert in_parquet(STORED, pa.timestamp("us", "UTC")) == in_utc
    assert in_avro({"type": "long", "logicalType": "local-timestamp-micros"}, *STORED) == TEXTS
    assert in_avro({"type": "long", "logicalType": "timestamp-micros"}, *STORED) == in_utc


def test_times_of_other_zones_are_given_in_utc():
    assert in_parquet([0], pa.timestamp("ms", "Europe/Berlin")) == ["1970-01-01T00:00:00Z"]


@pytest.mark.parametrize(("unit", "one"), [("ms", ".001000"), ("us", ".000001"), ("ns", ".000000001")])
def test_times_keep_what_their_unit_holds(unit, one):
    assert in_parquet([1, 0], pa.timestamp(unit)) == [f"1970-01-01T00:00:00{one}", "1970-01-01T00:00:00"]
    name = {"ms": "millis", "us": "micros", "ns": "nanos"}[unit]
    assert in_avro({"type": "long", "logicalType": f"timestamp-{name}"}, 1) == [f"1970-01-01T00:00:00{one}Z"]
    assert in_avro({"type": "long", "logicalType": f"local-timestamp-{name}"}, 1) == [f"1970-01-01T00:00:00{one}"]


def test_times_of_the_old_kind_do_not_become_others_after_2262():
    assert in_parquet(STORED, pa.timestamp("us"), use_deprecated_int96_timestamps=True) == TEXTS


def test_times_outside_of_pythons_years_are_texts_as_well():
    assert in_parquet([253_402_300_800, -62_135_596_801, -62_167_219_201], pa.timestamp("s", "UTC")) == [
        "+10000-01-01T00:00:00Z",
        "0000-12-31T23:59:59Z",
        "-0001-12-31T23:59:59Z",
    ]
    assert in_parquet([2**31 - 1], pa.date32()) == ["+5881580-07-11"]
    assert in_avro({"type": "long", "logicalType": "timestamp-millis"}, 2**62) == ["+146140482-04-24T15:36:27.904000Z"]
    assert in_avro({"type": "int", "logicalType": "date"}, 2**31 - 1, 0) == ["+5881580-07-11", "1970-01-01"]


def test_every_day_and_time_is_written_as_python_writes_it():
    for number in range(0, 3_652_059, 997):
        assert day(number - 719_162) == date.fromordinal(number + 1).isoformat()
    for number in range(0, 86_400 * 10**6, 977 * 10**6 + 13):
        assert clock(number, "us") == (EPOCH + timedelta(microseconds=number)).time().isoformat()
    assert moment(-1, "s", "Z") == "1969-12-31T23:59:59Z"


def test_dates_and_times_of_the_day_are_iso_8601():
    assert in_parquet([date(2026, 7, 29), None], pa.date32()) == ["2026-07-29", None]
    assert in_parquet([date(1969, 12, 31)], pa.date64()) == ["1969-12-31"]  # Parquet makes it the other kind
    assert in_parquet([time(1, 2, 3), time(23, 59, 59, 5000)], pa.time32("ms")) == ["01:02:03", "23:59:59.005000"]
    assert in_parquet([time(1, 2, 3, 4)], pa.time64("us")) == ["01:02:03.000004"]
    assert in_parquet([timedelta(seconds=3)], pa.duration("us")) == [3_000_000]
    assert in_avro({"type": "int", "logicalType": "time-millis"}, 1) == ["00:00:00.001000"]
    assert in_avro({"type": "long", "logicalType": "time-micros"}, 1) == ["00:00:00.000001"]


def test_bytes_are_base64():
    assert in_parquet([b"\x00\xff", b"", None], pa.binary()) == ["AP8=", "", None]
    assert in_parquet([b"ab"], pa.binary(2)) == ["YWI="]
    assert in_avro("bytes", b"\x00\xff") == ["AP8="]
    assert in_avro({"type": "fixed", "name": "f", "size": 2}, b"ab") == ["YWI="]


def test_uuids_are_texts():
    one = uuid.UUID("12345678-1234-5678-1234-567812345678")
    assert in_parquet([one.bytes], pa.uuid()) == [str(one)]
    assert in_avro({"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"}, one.bytes) == [str(one)]
    assert in_avro({"type": "string", "logicalType": "uuid"}, str(one), "none") == [str(one), "none"]


def test_numbers_that_json_has_not_are_texts_wherever_they_are():
    strange, named = [float("nan"), float("inf"), float("-inf"), 0.1], ["NaN", "Infinity", "-Infinity", 0.1]
    assert in_parquet(strange, pa.float64()) == named
    assert in_parquet([[{"x": number} for number in strange]], pa.list_(pa.struct([("x", pa.float64())]))) == [
        [{"x": name} for name in named]
    ]
    assert in_avro("double", *strange) == named
    assert in_parquet([0.5], pa.float16()) == in_parquet([0.5], pa.float32()) == in_avro("float", 0.5) == [0.5]


def test_nested_values_are_objects_and_arrays():
    kind = pa.struct(
        [("l", pa.list_(pa.struct([("d", pa.date32())]))), ("m", pa.map_(pa.string(), pa.decimal128(4, 2)))]
    )
    given = [
        {"l": [{"d": date(2026, 1, 2)}, {"d": None}, None], "m": [("x", Decimal("1.50"))]},
        None,
        {"l": [], "m": []},
        {"l": None, "m": None},
    ]
    assert in_parquet(given, kind) == [
        {"l": [{"d": "2026-01-02"}, {"d": None}, None], "m": {"x": "1.50"}},
        None,
        {"l": [], "m": {}},
        {"l": None, "m": None},
    ]
    assert in_parquet([[[1], None, []], None], pa.list_(pa.list_(pa.int32()))) == [[[1], None, []], None]
    assert in_parquet([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)) == [[1, 2], None, [3, 4]]


def test_avros_nested_values_and_unions_are_objects_and_arrays():
    day_ = {"type": "int", "logicalType": "date"}
    one = {"type": "record", "name": "one", "fields": [{"name": "d", "type": day_}]}
    kind = ["null", "string", one, {"type": "array", "items": ["one", "null"]}, {"type": "map", "values": "bytes"}]
    given = [None, "x", {"d": 1}, [{"d": 2}, None], {"k": b"\xff"}]
    assert in_avro(kind, *given) == [None, "x", {"d": "1970-01-02"}, [{"d": "1970-01-03"}, None], {"k": "/w=="}]
    assert in_avro({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B") == ["B"]


def test_keys_of_maps_are_texts_and_those_that_repeat_are_kept():
    assert in_parquet([[(1, "a"), (1, "b")]], pa.map_(pa.int64(), pa.string())) == [{"1": "a", "1_2": "b"}]
    assert in_parquet([[(date(2026, 1, 2), 1)]], pa.map_(pa.date32(), pa.int8())) == [{"2026-01-02": 1}]
    assert in_parquet([[(b"\xff", True)]], pa.map_(pa.binary(), pa.bool_())) == [{"/w==": True}]


def test_values_in_a_dictionary_are_values():
    for given, expected in ((["a", "b", "a", None], ["a", "b", "a", None]), ([date(2026, 1, 2)], ["2026-01-02"])):
        assert values("parquet", parquet(pa.table({"v": pa.array(given).dictionary_encode()}))) == expected


def test_a_type_of_somebody_elses_is_read_as_what_it_is_stored_as():
    kind = pa.opaque(pa.date32(), "day", "somebody")
    stored = pa.ExtensionArray.from_storage(kind, pa.array([date(2026, 1, 2)]))
    assert values("parquet", parquet(pa.table({"v": stored}))) == ["2026-01-02"]


def test_columns_of_one_name_are_all_kept():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert read("parquet", parquet(table)) == [('{"a":1,"a_2":2}', 0, None)]


def test_a_thousand_columns_are_no_trouble():
    table = pa.table({f"c{number}": [number, None] for number in range(1000)})
    first, second = (json.loads(payload) for payload, _, _ in read("parquet", parquet(table)))
    assert first == {f"c{number}": number for number in range(1000)}
    assert set(second.values()) == {None}


@pytest.mark.parametrize("rows", [0, 1, 4096, 10_000])
def test_offsets_count_rows_over_batches_and_row_groups(rows):
    assert read("parquet", counted(rows, row_group_size=3000)) == numbers(*range(rows))


def test_rows_that_are_large_are_read_in_small_batches():
    table = pa.table({"v": ["x" * (1 << 20)] * 30})
    file = pq.ParquetFile(io.BytesIO(parquet(table, use_dictionary=False)))
    assert columns.parquet._rows_at_once(file.metadata.row_group(0)) == 7


def test_texts_that_are_no_utf_8_are_kept_with_escapes_and_marked():
    bad = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a\xff", b"b", None]).buffers())
    marked = [('{"v":"a\\xff"}', 0, "invalid UTF-8"), ('{"v":"b"}', 1, None), ('{"v":null}', 2, None)]
    assert read("parquet", parquet(pa.table({"v": bad}))) == marked
    assert read("parquet", parquet(pa.table({"v": bad.dictionary_encode()}))) == marked
    schema = {"type": "record", "name": "row", "fields": [{"name": "v", "type": ["string", "null"]}]}
    stored = avro(schema, {"v": "a!"}, {"v": "b"}, {"v": None})
    assert read("avro", stored.replace(b"a!", b"a\xff")) == marked


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_packed_files_are_unpacked(form):
    data = counted(3) if form == "parquet" else avro(NUMBERS, *({"n": number} for number in range(3)))
    assert read(form, gzip.compress(data), "a.gz", 7) == numbers(0, 1, 2)
    assert read(form, zstandard.compress(data), "a.zst", 7) == numbers(0, 1, 2)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_avro_packs_its_blocks_in_several_ways(codec):
    file = io.BytesIO()
    fastavro.writer(file, NUMBERS, [{"n": number} for number in range(100)], codec=codec)
    assert read("avro", file.getvalue()) == numbers(*range(100))


@pytest.mark.parametrize("data", [b"", b"PAR1", b'{"id": 1}\n', bytes(100), counted(100)[:-1], counted(100)[4:]])
def test_what_is_no_parquet_is_one_malformed_record(data):
    ((payload, offset, reason),) = read("parquet", data)
    assert (payload, offset, reason[: len(PARQUET)]) == ("", 0, PARQUET)
    assert 0 < len(reason) - len(PARQUET) <= 200


def test_an_empty_file_is_said_to_be_that():
    assert read("parquet", b"") == [("", 0, PARQUET + "it is empty")]
    assert read("avro", b"") == [("", 0, AVRO + "it is empty")]


def test_damage_in_a_row_group_comes_after_the_rows_before_it():
    data = counted(3000, row_group_size=1000, write_page_checksum=True, compression="none", use_dictionary=False)
    place = data.index((1500).to_bytes(8, "little"))
    *rows, (payload, offset, reason) = read("parquet", data[:place] + b"\xff" + data[place + 1 :])
    assert rows == numbers(*range(1000))
    assert (payload, offset, reason[: len(PARQUET)]) == ("", 1000, PARQUET)


@pytest.mark.parametrize("data", [b"", b"Obj\x01", b'{"id": 1}\n', bytes(100), avro(NUMBERS)[:-1]])
def test_what_is_no_avro_is_one_malformed_record(data):
    ((payload, offset, reason),) = read("avro", data)
    assert (payload, offset, reason[: len(AVRO)]) == ("", 0, AVRO)


def test_an_avro_file_cut_off_anywhere_gives_the_rows_before_and_one_malformed_record():
    whole, header = avro(NUMBERS, *({"n": n} for n in range(300)), per_block=100), len(avro(NUMBERS))
    ends = {len(avro(NUMBERS, *({"n": n} for n in range(rows)), per_block=100)) for rows in (0, 100, 200)}
    for kept in set(range(header, len(whole))) - ends:
        *rows, (payload, offset, reason) = read("avro", whole[:kept])
        assert rows == numbers(*range(len(rows)))
        assert (payload, offset, reason[: len(AVRO)]) == ("", len(rows), AVRO), kept


def test_damage_within_an_avro_file_comes_after_the_rows_before_it():
    data = bytearray(avro(NUMBERS, *({"n": n} for n in range(30)), per_block=10))
    data[data.index(MARK, len(avro(NUMBERS))) + 5] ^= 255
    *rows, (payload, offset, reason) = read("avro", bytes(data))
    assert rows == numbers(*range(10))
    assert (payload, offset, reason) == ("", 10, AVRO + "expected sync marker not found")


def test_a_packed_file_that_is_cut_off_is_said_to_be_that():
    assert read("parquet", gzip.compress(counted(100))[:-20], "a.gz") == [("", 0, GZIP)]
    assert read("parquet", gzip.compress(counted(3))[:-1], "a.gz") == [*numbers(0, 1, 2), ("", 3, GZIP)]
    rows = [{"n": number} for number in range(3)]
    assert read("avro", gzip.compress(avro(NUMBERS, *rows, per_block=1))[:-8], "a.gz") == [
        *numbers(0, 1, 2),
        ("", 3, GZIP),
    ]


def test_what_a_parser_says_is_short_the_same_each_time_and_can_be_stored():
    assert columns._cause(ValueError("<object at 0x7f00> is wrong\nand more")) == "<object> is wrong"
    assert columns._cause(EOFError()) == "EOFError"
    assert columns._cause(KeyError("avro.schema")) == "KeyError 'avro.schema'"
    assert columns._cause(ValueError("no \udcff")) == r"no \udcff"
    assert len(columns._cause(ValueError("x y" * 1000))) == 200


def test_a_lack_of_memory_is_not_taken_for_damage(monkeypatch):
    def fail(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setitem(columns._KINDS, "parquet", (fail, "a Parquet file"))
    with pytest.raises(MemoryError):
        read("parquet", counted(1))


def test_json_is_small_and_keeps_letters():
    assert encoded({"a": ["ä😀\n", 1, None, True]}) == '{"a":["ä😀\\n",1,null,true]}'
