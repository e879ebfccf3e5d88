"""Rows past their time: from which day on bronze keeps them, what goes, and what must never go along."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, NestedField, StringType

from lakehouse import plan
from lakehouse.batch import Batch, TableWrite
from lakehouse.contracts import contract
from lakehouse.contracts.keeping import Retention
from lakehouse.intervals import Coverage, Interval, shown
from lakehouse.ledger import batches, taken_files
from lakehouse.maintenance import old_rows, readers
from lakehouse.maintenance.old_rows import NotOnlyOldRows, ended, going, let_go, limit
from lakehouse.settings import settings
from tests.unit import iceberg_tables
from tests.unit.contract_folder import BRONZE, GOLD, SILVER, problems
from tests.unit.iceberg_tables import DAY, append, midnight
from tests.unit.plan_world import part, planned, small, table

NOW = datetime(2026, 6, 15, 9, tzinfo=UTC)
ORDERS = contract("bronze.orders")
KEEPING = ORDERS.model_copy(update={"retention": Retention.model_validate({"snapshots": "7d", "rows": "100d"})})
FIRST_KEPT = date(2026, 3, 7)
NAME = "silver.orders"  # as the tests' catalog has it; what it is like is bronze


@pytest.fixture(autouse=True)
def taken(monkeypatch) -> list[Batch]:
    """What the ledger knows as published."""
    known: list[Batch] = []
    monkeypatch.setattr(batches, "published", lambda _: known)
    return known


def test_rows_are_kept_for_so_many_days():
    assert limit(KEEPING, "bronze.orders", NOW) == FIRST_KEPT
    assert limit(ORDERS, "bronze.orders", NOW) is None
    assert KEEPING.version == ORDERS.version, "how long rows stay does not change which rows come out"


MONTH, WEEK = "@monthly", "@weekly"


@pytest.mark.parametrize(
    ("schedule", "zone", "kept", "now", "before"),
    [
        (MONTH, "UTC", "30d", "2026-02-01T02:00", "2026-01-01"),  # January has ended just now
        (MONTH, "UTC", "30d", "2026-03-02T23:00", "2026-01-01"),
        (MONTH, "UTC", "30d", "2026-03-03T00:00", "2026-02-01"),  # and goes when it has been over for 30 days
        (MONTH, "Asia/Tokyo", "30d", "2026-03-02T14:00", "2025-12-31"),  # January begins at 15:00 of the day before
        (MONTH, "Asia/Tokyo", "30d", "2026-03-02T15:00", "2026-01-31"),
        (MONTH, "America/Los_Angeles", "30d", "2026-03-03T07:00", "2026-01-01"),
        (MONTH, "America/Los_Angeles", "30d", "2026-03-03T08:00", "2026-02-01"),
        (WEEK, "UTC", "1d", "2026-06-07T23:00", "2026-05-31"),  # weeks end on Sundays, and this one did on the 7th
        (WEEK, "UTC", "1d", "2026-06-08T00:00", "2026-06-07"),
        ("@daily", "Pacific/Auckland", "1d", "2026-06-15T11:59", "2026-06-13"),
        ("@daily", "Pacific/Auckland", "1d", "2026-06-15T12:00", "2026-06-14"),
        ("0 17 * * *", "America/Los_Angeles", "1d", "2026-06-16T00:00", "2026-06-15"),
        ("@hourly", "America/New_York", "1d", "2026-06-16T00:30", "2026-06-15"),
        ("@hourly", "Asia/Kolkata", "1d", "2026-06-16T00:15", "2026-06-14"),  # one hour began at 23:30, and is not over
        ("@hourly", "Asia/Kolkata", "1d", "2026-06-16T00:30", "2026-06-15"),
        ("@daily", "Europe/Berlin", "1d", "2025-10-27T22:30", "2025-10-25"),  # a day of 25 hours
        ("@daily", "Europe/Berlin", "1d", "2025-10-27T23:00", "2025-10-26"),
    ],
)
def test_rows_are_as_old_as_the_end_of_their_interval(schedule, zone, kept, now, before):
    given = {"schedule": schedule, "timezone": zone}
    found = ORDERS.model_copy(
        update={**given, "retention": Retention.model_validate({"snapshots": "7d", "rows": kept})}
    )
    assert str(limit(found, "bronze.orders", datetime.fromisoformat(f"{now}Z"))) == before


def of(first: date, last: date, zone: str = "UTC") -> Batch:
    """A batch whose interval begins and ends with these days."""
    ends = (datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)) for day in (first, last + timedelta(1)))
    return Batch.model_construct(interval_start=next(ends).astimezone(UTC), interval_end=next(ends).astimezone(UTC))


FEBRUARY = of(date(2026, 2, 1), date(2026, 2, 28))


@pytest.mark.parametrize(
    ("batch", "now", "before"),
    [
        (FEBRUARY, NOW - timedelta(days=20), "2026-02-01"),  # of 100 days before that, its last is not over
        (FEBRUARY, datetime(2026, 6, 8, 23, tzinfo=UTC), "2026-02-01"),
        (FEBRUARY, datetime(2026, 6, 9, tzinfo=UTC), "2026-03-01"),
        (of(FIRST_KEPT, FIRST_KEPT, "Europe/Berlin"), NOW, "2026-03-06"),  # it began on the day before, by UTC
        (of(FIRST_KEPT, FIRST_KEPT, "Europe/Berlin"), NOW + timedelta(days=1), "2026-03-08"),
        (of(FIRST_KEPT, FIRST_KEPT), NOW, "2026-03-07"),
    ],
)
def test_what_was_taken_under_another_schedule_is_as_old_as_its_own_interval(taken, batch, now, before):
    taken += [of(date(2026, 1, 1), date(2026, 1, 31)), batch]
    assert str(limit(KEEPING, "bronze.orders", now)) == before


@pytest.mark.parametrize(
    ("schedule", "zone"),
    [("0 17 * * *", "America/Los_Angeles"), ("@hourly", "America/New_York"), ("@daily", "Asia/Tokyo")],
)
def test_an_interval_that_is_missing_holds_the_rows_wherever_its_day_begins(monkeypatch, schedule, zone):
    """Each of those that begin on the days from which on rows are kept; what went before they are not asked for."""
    source = ORDERS.model_copy(update={"schedule": schedule, "timezone": zone})
    first, end = midnight(FIRST_KEPT), midnight(FIRST_KEPT) + timedelta(2)
    every = [source.interval_after(first)]
    while every[-1].end < end:
        every.append(source.interval_after(every[-1].end))
    monkeypatch.setattr(readers, "table", lambda _: None)
    for hole in every:
        monkeypatch.setattr(readers, "coverage", lambda _, hole=hole: Coverage.of(one for one in every if one != hole))
        (told,) = readers._holes(source, FIRST_KEPT, end.date())
        assert told == f"bronze.orders has yet to take {shown(hole, zone)}"
    monkeypatch.setattr(readers, "coverage", lambda _: Coverage.of(every))
    assert list(readers._holes(source, FIRST_KEPT, end.date())) == []


@pytest.mark.parametrize(
    ("floor", "held"), [("", True), ("2025-01-01", True), ("2026-03-08", False), ("2026-03-07", True)]
)
def test_an_interval_that_no_run_is_made_for_holds_no_rows(monkeypatch, floor, held):
    """The 7th and all before it are missing."""
    monkeypatch.setenv("LAKEHOUSE_START", floor)
    settings.cache_clear()
    every = Interval(midnight(date(2026, 3, 8)), midnight(date(2026, 3, 20)))
    monkeypatch.setattr(readers, "table", lambda _: None)
    monkeypatch.setattr(readers, "coverage", lambda _: Coverage.of([every]))
    assert bool(list(readers._holes(ORDERS, None, date(2026, 3, 10)))) is held


def test_a_change_may_name_the_local_time_of_any_zone(monkeypatch):
    """What went may say that it is up to 14 hours younger than it is."""
    came = datetime(2026, 6, 1, 2, tzinfo=UTC)
    silver = contract("silver.orders")
    monkeypatch.setattr(taken_files, "published_until", lambda *_: came)
    assert plan._gone_until(silver, FIRST_KEPT) > came + timedelta(hours=14)
    monkeypatch.setattr(taken_files, "published_until", lambda *_: None)
    assert plan._gone_until(silver, FIRST_KEPT) is None


@pytest.mark.parametrize(
    ("ends", "old"),
    [
        (midnight(FIRST_KEPT), True),
        (midnight(FIRST_KEPT) + timedelta(hours=1), False),
        (midnight(FIRST_KEPT) - timedelta(hours=1), True),
        (None, False),
    ],
)
def test_a_partition_is_old_when_all_of_it_is(ends, old):
    assert ended(ends, FIRST_KEPT) is old


# --- The plan ---


def old_and_new(**given: Any) -> Any:
    health = table(small(1, rows=65, deleted_rows=5), small(2, rows=5), part(120), part(121, ends=None))
    return planned(health, contract=KEEPING, going=going(health, date(2026, 1, 5)), **given)


def test_what_goes_is_counted_and_not_packed_before():
    found = old_and_new()
    assert [step.operation for step in found.steps] == ["delete_old_rows"]
    told = "65 rows in 20 files are from before 2026-01-05, past the 100d that the contract keeps"
    assert (found.steps[0].reason, found.steps[0].rows_from) == (told, date(2026, 1, 5))


def test_rows_that_somebody_has_yet_to_take_stay_and_are_packed():
    found = old_and_new(rows_held="silver.orders has yet to take 2026-01-02")
    assert [step.operation for step in found.steps] == ["rewrite_data_files"]
    assert found.put_off[0] == (
        "65 rows in 20 files are from before 2026-01-05, and stay as silver.orders has yet to take 2026-01-02"
    )


def test_nothing_goes_where_nothing_is_old():
    assert going(table(part(120)), date(2026, 1, 5)) is None
    assert going(table(part(1)), None) is None


# --- What goes, and what must not go along ---

SCHEMA = Schema(NestedField(1, "_raw_payload", StringType()), NestedField(2, "_ingestion_date", DateType()))
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "_ingestion_date"))


def days(count: int) -> list[date]:
    return [DAY + timedelta(n) for n in range(count)]


def file(day: date | None, name: str = "") -> DataFile:
    return iceberg_tables.file(name or str(day), 100, day) if day else dayless()


def dayless() -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="s3://lake/silver/orders/data/None.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(None),
        record_count=10,
        file_size_in_bytes=100,
    )


def bronze(folder: Path, spec: PartitionSpec = BY_DAY) -> Table:
    """A table with a file for each of three days, and one for none."""
    made = iceberg_tables.catalog(folder).create_table(NAME, SCHEMA, partition_spec=spec)
    append(made, [file(day) for day in (*days(3), None)])
    return made


@pytest.fixture
def published(monkeypatch) -> list[tuple[TableWrite, dict[str, str]]]:
    """What would be published; the real publish is for the tests on the real catalog."""
    found: list[tuple[TableWrite, dict[str, str]]] = []
    monkeypatch.setattr(old_rows, "publish", lambda write, properties: found.append((write, properties)))
    monkeypatch.setattr(old_rows, "drop_branches", lambda *_: [])
    return found


def paths(found: Table, version: int | None) -> set[str]:
    rows = found.inspect.files(version).to_pylist()
    return {row["file_path"].rsplit("/", 1)[1].removesuffix(".parquet") for row in rows}


def test_old_files_go_and_no_other(tmp_path, published):
    found = bronze(tmp_path)
    done = let_go(NAME, found, days(3)[2], "try", lambda: "")
    ((write, properties),) = published
    assert done.counters == {"rows": 20, "data_files": 2, "bytes": 200}
    assert properties == {"lakehouse.rows-from": "2026-01-03"}
    assert paths(found, write.head) == {"2026-01-03", "None"}
    assert found.snapshot_by_id(write.head).summary.additional_properties["lakehouse.rows-from"] == "2026-01-03"
    assert paths(found, write.base) == {str(day) for day in (*days(3), None)}, "the version before has them all"


def test_from_which_day_on_rows_are_all_there_never_goes_back(tmp_path, published):
    found = bronze(tmp_path)
    with found.transaction() as change:
        change.set_properties({"lakehouse.rows-from": "2026-05-05"})
    let_go(NAME, found, days(3)[2], "try", lambda: "")
    assert published[0][1] == {"lakehouse.rows-from": "2026-05-05"}


def test_nothing_goes_that_somebody_has_yet_to_take_also_if_that_shows_late(tmp_path, published):
    answers = iter(["", "silver has yet to take it"])
    found = bronze(tmp_path)
    assert let_go(NAME, found, days(3)[2], "try", lambda: "silver has yet to take it").counters == {}
    assert let_go(NAME, found, days(3)[2], "again", lambda: next(answers)).counters == {}
    assert published == []
    assert next(answers, None) is None, "it was asked for twice"


def test_files_that_are_not_parted_by_their_day_stay(tmp_path, published):
    made = iceberg_tables.catalog(tmp_path).create_table(NAME, SCHEMA)
    append(made, [iceberg_tables.file("any", 100, None)])
    assert let_go(NAME, made, days(3)[2], "try", lambda: "").counters == {}
    assert published == []


@pytest.mark.parametrize(
    ("gone", "came", "told"),
    [
        ([*days(3)], [], "1 files with rows of 2026-01-03 or later would go"),
        ([days(3)[0], None], [], "1 files with rows of 2026-01-03 or later would go"),
        ([days(3)[0]], [days(3)[0]], "1 files would come where old ones should only go"),
    ],
    ids=["a later day", "no day", "written again"],
)
def test_what_would_go_along_is_noticed(tmp_path, gone, came, told):
    found = bronze(tmp_path)
    base = found.current_snapshot().snapshot_id
    with found.transaction() as change, change.update_snapshot().overwrite() as kept:
        for one in map(file, gone):
            one.spec_id = found.spec().spec_id
            kept.delete_data_file(one)
        for one in (file(day, "rewritten") for day in came):
            one.spec_id = found.spec().spec_id
            kept.append_data_file(one)
    write = TableWrite(table=NAME, branch="any", base=base, head=found.refresh().current_snapshot().snapshot_id)
    with pytest.raises(NotOnlyOldRows, match=told):
        old_rows._compared(found, write, days(3)[2])


# --- Contracts whose rows must stay ---

ROWS = "retention: {rows: 100d}\n"


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        (
            "silver/events.yaml",
            SILVER,
            "rows go from bronze only, where their readers have taken them; remove rows",
        ),
        ("gold/daily.yaml", GOLD, "rows go from bronze only, where their readers have taken them; remove rows"),
        (
            "bronze/events.yaml",
            BRONZE + "partition_by: [_source]\n",
            "rows go by _ingestion_date; add it to partition_by",
        ),
    ],
)
def test_rows_that_cannot_go_are_refused(tmp_path, file, text, told):
    assert problems(tmp_path, {file: text + ROWS}) == [f"{file}: retention.rows: {told}"]


def test_parts_of_days_are_refused(tmp_path):
    found = problems(tmp_path, {"bronze/events.yaml": BRONZE + "retention: {rows: 36h}\n"})
    assert found == ["bronze/events.yaml: retention.rows: rows go by whole days; write 1d or more"]


OTHER_INTERVALS = (
    "silver.events has other intervals, and one of them could lose a part of its records; give both the same schedule "
    "and timezone, or remove rows, which brings back none that went"
)
NO_TIME = (
    "silver.events cannot tell a record that is newer than all that went; make a timestamp the first of its newest_by, "
    "or remove rows, which brings back none that went"
)
NONE_BACK = "remove the gate, or rows, which brings back none that went"
OWN_GATE = f"a gate of bronze.events needs all rows of bronze.events; {NONE_BACK}"
A_GATE = f"a gate of silver.events needs all rows of bronze.events; {NONE_BACK}"


@pytest.mark.parametrize(
    ("reader", "told"),
    [
        (SILVER.replace("newest_by: [seen_at]", "newest_by: [event_id]"), NO_TIME),
        (SILVER + 'schedule: "@weekly"\n', OTHER_INTERVALS),
        (SILVER + "timezone: Asia/Tokyo\n", OTHER_INTERVALS),
        (SILVER + "gates: [{references: {column: event_id, to: bronze.events._source_offset}}]\n", A_GATE),
        (
            SILVER + "gates: [{sql: SELECT * FROM head ANTI JOIN bronze_events USING (_batch_id), name: known}]\n",
            A_GATE,
        ),
    ],
    ids=["no time", "other intervals", "another zone", "a gate", "a gate in SQL"],
)
def test_rows_that_somebody_could_not_do_without_must_stay(tmp_path, reader, told):
    changes = {"bronze/events.yaml": BRONZE + ROWS, "silver/events.yaml": reader, "gold/daily.yaml": None}
    assert f"bronze/events.yaml: retention.rows: {told}" in problems(tmp_path, {**changes, "gold/daily.sql": None})


@pytest.mark.parametrize(
    ("gate", "fine"),
    [
        ("row_count: {at_least: 1000}", False),
        ("row_count: {at_least: 90%}", True),
        ("{sql: SELECT * FROM head WHERE false, name: none}", False),
    ],
)
def test_a_gate_of_its_own_must_not_need_all_rows(tmp_path, gate, fine):
    gates = f"gates: [{gate if gate[0] == '{' else '{' + gate + '}'}]\n"
    found = problems(tmp_path, {"bronze/events.yaml": BRONZE + ROWS + gates})
    assert (f"bronze/events.yaml: retention.rows: {OWN_GATE}" not in found) is fine


def test_rows_that_gold_reads_must_stay(tmp_path):
    direct = GOLD.replace("reads: silver.events", "reads: bronze.events").replace(
        "rebuild: {day: silver.events.seen_at}\n", ""
    )
    found = problems(tmp_path, {"bronze/events.yaml": BRONZE + ROWS, "gold/daily.yaml": direct})
    told = "gold.daily reads bronze.events as a whole, and would forget old rows; remove rows, which brings back none"
    assert f"bronze/events.yaml: retention.rows: {told} that went" in found


def test_rows_may_go_where_all_readers_can_live_with_it(tmp_path):
    assert problems(tmp_path, {"bronze/events.yaml": BRONZE + ROWS}) == []
