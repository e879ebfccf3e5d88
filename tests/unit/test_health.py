"""Health is measured from real metadata: what counts as small, what a query opens, how old the data is."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import fastavro
import pytest
from fastavro.read import LOGICAL_READERS
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import DateType, DecimalType, LongType, NestedField, StringType, TimestamptzType

from lakehouse.health import health, measured
from lakehouse.health.entries import live_entries
from lakehouse.health.partitions import described
from tests.unit import iceberg_tables as tables
from tests.unit.iceberg_tables import DAY, MEGABYTE, append, file, made


def test_an_empty_table_has_nothing_wrong(tmp_path):
    found = health(made(tmp_path))
    assert (found.files, found.bytes, found.rows, found.small_share, found.amplification) == (0, 0, 0, 0, 1)
    assert found.written_at is None
    assert found.metadata_bytes > 0


def test_files_are_counted_by_partition(tmp_path):
    table = made(tmp_path)
    first, second = tables.days(2)
    append(table, [file("a", 10 * MEGABYTE), file("b", 30 * MEGABYTE), file("c", 128 * MEGABYTE, second)])
    append(table, [file("d", 20 * MEGABYTE, first)])
    found = health(table)
    assert (found.files, found.bytes, found.rows) == (4, 188 * MEGABYTE, 40)
    assert found.median_bytes == 30 * MEGABYTE
    one, other = found.partitions
    assert (one.name, one.files, one.bytes, one.manifests) == (f"ordered_at_day={first}", 3, 60 * MEGABYTE, 2)
    assert (other.name, other.files, other.manifests) == (f"ordered_at_day={second}", 1, 1)
    assert (one.median_bytes, one.p95_bytes) == (20 * MEGABYTE, 30 * MEGABYTE)
    assert one.where == (
        "`ordered_at` >= TIMESTAMP '2026-01-01 00:00:00' AND `ordered_at` < TIMESTAMP '2026-01-02 00:00:00'"
    )
    assert one.ends == tables.midnight(second)


@pytest.mark.parametrize(
    ("sizes", "small"),
    [([1], 0), ([63], 0), ([1, 1], 1), ([1, 64, 65, 128], 0), ([1, 2, 3, 128], 2)],
    ids=["alone", "nearly half", "two", "one remainder", "three and a full one"],
)
def test_the_one_small_file_that_a_partition_may_have_is_not_counted(tmp_path, sizes, small):
    table = made(tmp_path)
    append(table, [file(str(n), size * MEGABYTE) for n, size in enumerate(sizes)])
    assert health(table, 128 * MEGABYTE).small_files == small


def test_deletes_that_belong_to_one_file_each_are_told_from_those_that_belong_to_many(tmp_path, monkeypatch):
    table = made(tmp_path)
    append(table, [file("a", 5)])
    (entry,) = live_entries(table.current_snapshot().manifests(table.io)[0], table.io)
    vector = entry._replace(is_data=False, of_one=True)
    monkeypatch.setattr(
        measured, "live_entries", lambda *_, **__: [entry, vector, vector, vector._replace(of_one=False)]
    )
    (one,) = health(table).partitions
    assert (one.files, one.delete_files, one.deletes_of_one_file) == (1, 3, 2)


@pytest.mark.parametrize("named", [None, "s3://lake/a.parquet"])
def test_a_delete_file_that_names_its_data_file_belongs_to_it_alone(tmp_path, named):
    """As each deletion vector does, and a delete file of format 2 may."""
    text = {"type": "string"}
    fields = {134: ("content", "int", 1), 100: ("file_path", text, "a"), 103: ("record_count", "long", 2)}
    fields |= {104: ("file_size_in_bytes", "long", 3), 143: ("referenced_data_file", ["null", text], named)}
    data = [{"name": name, "type": kind, "field-id": number} for number, (name, kind, _) in fields.items()]
    nothing = {"type": "record", "name": "r102", "fields": []}
    data.append({"name": "partition", "type": nothing, "field-id": 102})
    file_type = {"type": "record", "name": "r2", "fields": data}
    entry_fields = [("status", "int", 0), ("data_file", file_type, 2)]
    listed = [{"name": name, "type": kind, "field-id": number} for name, kind, number in entry_fields]
    schema = {"type": "record", "name": "manifest_entry", "fields": listed}
    entry = {"status": 1, "data_file": {name: value for name, _, value in fields.values()} | {"partition": {}}}
    with (tmp_path / "manifest.avro").open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema(schema), [entry])
    (one,) = live_entries(SimpleNamespace(manifest_path=f"file://{tmp_path}/manifest.avro"), made(tmp_path).io)
    assert (one.is_data, one.rows, one.bytes, one.of_one) == (False, 2, 3, named is not None)


def test_files_that_a_rewrite_would_cut_up_are_counted(tmp_path):
    table = made(tmp_path)
    append(table, [file(str(size), size * MEGABYTE) for size in (95, 96, 180, 181, 300)])
    (one,) = health(table, 100 * MEGABYTE).partitions
    assert (one.large_files, one.large_bytes) == (2, 481 * MEGABYTE)


def test_read_amplification_is_files_opened_for_each_that_would_be_needed(tmp_path):
    table = made(tmp_path)
    first, second = tables.days(2)
    append(table, [file(f"a{n}", 16 * MEGABYTE, first) for n in range(16)])  # 256 MB in 16: two would do
    append(table, [file(f"b{n}", 1 * MEGABYTE, second) for n in range(2)])
    found = health(table, 128 * MEGABYTE)
    assert [one.amplification for one in found.partitions] == [8, 2]
    assert found.amplification == 5
    assert found.files_to_open == 9


def test_a_table_without_partitions_is_one_group(tmp_path):
    table = made(tmp_path, tables.NO_SPEC)
    append(table, [file("a", 5, None), file("b", 6, None)])
    (only,) = health(table).partitions
    assert (only.name, only.where, only.ends, only.files) == ("", None, None, 2)


def test_entries_are_what_pyiceberg_reads_without_the_metrics(tmp_path):
    table = made(tmp_path)
    append(table, [file(str(n), n + 1, day, rows=n, metrics=9) for n, day in enumerate(tables.days(50))])
    (manifest,) = table.current_snapshot().manifests(table.io)
    whole = [one.data_file for one in manifest.fetch_manifest_entry(table.io)]
    read = list(live_entries(manifest, table.io))
    assert [(one.path, one.rows, one.bytes, one.is_data) for one in read] == [
        (one.file_path, one.record_count, one.file_size_in_bytes, True) for one in whole
    ]
    assert [one.partition for one in read] == [(one.partition[0],) for one in whole]


def test_what_others_make_of_days_in_avro_does_not_matter(tmp_path, monkeypatch):
    """The readers of landing files have their own idea of them, for the whole process."""
    table = made(tmp_path)
    append(table, [file("a", 5)])
    expected = health(table).partitions
    monkeypatch.setitem(LOGICAL_READERS, "int-date", lambda number, *_: f"day {number}")
    assert health(table).partitions == expected


def test_files_that_hold_a_column_which_was_dropped_are_found_and_later_ones_are_not(tmp_path):
    table = tables.made(tmp_path)
    tables.append(table, [tables.file("old", 5, metrics=3), tables.file("without", 7, metrics=2)])
    assert health(table).partitions[0].dropped_files == 0
    with table.update_schema() as change:
        change.delete_column("region")
    before = table.current_snapshot()
    tables.append(table, [tables.file("new", 9, metrics=2)])
    found = health(table)
    assert [(one.dropped_files, one.dropped_bytes) for one in found.partitions] == [(1, 5)]
    assert before is not None
    assert found.last_with_dropped == datetime.fromtimestamp(before.timestamp_ms / 1000, UTC)


def test_a_rewrite_does_not_make_a_stale_table_look_fresh(tmp_path):
    table = made(tmp_path)
    append(table, [file("a", 5)])
    written = health(table).written_at
    tables.replace(table)
    found = health(table)
    assert found.snapshots == 2
    assert found.snapshot_id == table.current_snapshot().snapshot_id
    assert found.written_at == written


def test_snapshots_that_a_tag_keeps_are_not_counted(tmp_path):
    table = made(tmp_path)
    append(table, [file("a", 5)])
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "training").commit()
    append(table, [file("b", 5)])
    found = health(table)
    assert (found.snapshots, found.tags, found.branches) == (1, 1, 1)
    assert found.oldest_snapshot_ms == table.current_snapshot().timestamp_ms


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "at", TimestamptzType(), required=True),
    NestedField(3, "region", StringType()),
    NestedField(4, "day", DateType()),
    NestedField(5, "price", DecimalType(9, 2)),
)
UTC_DAY = int((datetime(2026, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1))
FIRST_DAY, LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))


def between(first: str, end: str) -> str:
    return f"`at` >= TIMESTAMP '{first}' AND `at` < TIMESTAMP '{end}'"


@pytest.mark.parametrize(
    ("source", "transform", "value", "where", "ends"),
    [
        (2, HourTransform(), UTC_DAY * 24 + 5, between("2026-01-01 05:00:00", "2026-01-01 06:00:00"),
         datetime(2026, 1, 1, 6, tzinfo=UTC)),
        (2, MonthTransform(), 56 * 12 - 1, between("2025-12-01 00:00:00", "2026-01-01 00:00:00"),
         datetime(2026, 1, 1, tzinfo=UTC)),
        (4, YearTransform(), 56, "`day` >= DATE '2026-01-01' AND `day` < DATE '2027-01-01'",
         datetime(2027, 1, 1, tzinfo=UTC)),
        (4, IdentityTransform(), UTC_DAY, "`day` = DATE '2026-01-01'", datetime(2026, 1, 2, tzinfo=UTC)),
        (3, IdentityTransform(), "d'or\\", "`region` = 'd\\'or\\\\'", None),
        (3, IdentityTransform(), None, "`region` IS NULL", None),
        (1, IdentityTransform(), 7, "`id` = 7", None),
        (1, BucketTransform(16), 3, None, None),
        (3, BucketTransform(16), None, None, None),
        (3, TruncateTransform(2), None, None, None),
        (5, IdentityTransform(), None, None, None),
        (2, DayTransform(), None, "`at` IS NULL", None),
        (2, VoidTransform(), None, None, None),
        (2, IdentityTransform(), 1_500_000, "`at` = TIMESTAMP '1970-01-01 00:00:01.500000'",
         datetime(1970, 1, 1, 0, 0, 1, 500_001, tzinfo=UTC)),
        (2, DayTransform(), LAST_DAY, "`at` >= TIMESTAMP '9999-12-31 00:00:00'", None),
        (2, HourTransform(), LAST_DAY * 24 + 23, "`at` >= TIMESTAMP '9999-12-31 23:00:00'", None),
        (2, YearTransform(), 9999 - 1970, "`at` >= TIMESTAMP '9999-01-01 00:00:00'", None),
        (2, MonthTransform(), (9999 - 1970) * 12 + 11, "`at` >= TIMESTAMP '9999-12-01 00:00:00'", None),
        (4, IdentityTransform(), LAST_DAY, "`day` = DATE '9999-12-31'", None),
        (2, DayTransform(), FIRST_DAY, between("0001-01-01 00:00:00", "0001-01-02 00:00:00"),
         datetime(1, 1, 2, tzinfo=UTC)),
        (2, HourTransform(), FIRST_DAY * 24 + 1, between("0001-01-01 01:00:00", "0001-01-01 02:00:00"),
         datetime(1, 1, 1, 2, tzinfo=UTC)),
        (2, MonthTransform(), (1 - 1970) * 12, between("0001-01-01 00:00:00", "0001-02-01 00:00:00"),
         datetime(1, 2, 1, tzinfo=UTC)),
        (2, YearTransform(), 987 - 1970, between("0987-01-01 00:00:00", "0988-01-01 00:00:00"),
         datetime(988, 1, 1, tzinfo=UTC)),
        (2, IdentityTransform(), FIRST_DAY * 86_400_000_000, "`at` = TIMESTAMP '0001-01-01 00:00:00'",
         datetime(1, 1, 1, microsecond=1, tzinfo=UTC)),
        (4, IdentityTransform(), FIRST_DAY, "`day` = DATE '0001-01-01'", datetime(1, 1, 2, tzinfo=UTC)),
        (2, DayTransform(), LAST_DAY + 1, None, None),
        (2, YearTransform(), 10_000 - 1970, None, None),
        (4, IdentityTransform(), LAST_DAY + 1, None, None),
    ],
    ids=["hour", "month", "year", "date", "text", "null", "number", "bucket", "null in buckets", "null cut short",
         "null of decimals", "null time", "void", "time", "last day", "last hour", "last year", "last month",
         "last date", "first day", "first hour", "first month", "early year", "first time", "first date",
         "beyond the last day", "beyond the last year", "beyond the last date"],
)  # fmt: skip
def test_a_partition_is_picked_by_a_condition_on_its_column_and_null_as_others(source, transform, value, where, ends):
    told = described(PartitionSpec(PartitionField(source, 1000, transform, "p")), SCHEMA, (value,))
    assert (told.where, told.ends) == (where, ends)


def test_a_partition_beyond_the_last_day_is_not_picked_by_the_rest_of_its_values():
    """That would pick each day of the region."""
    fields = (PartitionField(2, 1000, DayTransform(), "day"), PartitionField(3, 1001, IdentityTransform(), "region"))
    told = described(PartitionSpec(*fields), SCHEMA, (LAST_DAY + 1, "north"))
    assert (told.where, told.ends) == (None, None)


def test_health_of_many_files_keeps_a_few_bytes_of_each(tmp_path):
    """What is kept of a file is its size: no object stays alive for each."""
    table, peaks = made(tmp_path), []
    for part in range(2):
        for commit in range(8):
            append(table, [file(f"{part}-{commit}-{n}", n, DAY, metrics=5) for n in range(1, 501)])
        tracemalloc.start()
        health(table)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 4_000 * 100, peaks
