"""Rows past their time: from which day on a table keeps them, what goes, and what must never go along."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, MonthTransform, YearTransform

from lakehouse.batch import TableWrite
from lakehouse.contracts import contract
from lakehouse.contracts.keeping import Retention
from lakehouse.maintenance import lifetimes
from lakehouse.maintenance.lifetimes import NotOnlyOldRows, going, is_old, limit
from tests.unit.contract_folder import BRONZE, GOLD, SILVER, problems
from tests.unit.iceberg_tables import append, days, file, made, midnight
from tests.unit.test_maintenance_plan import ORDERS, part, planned, small, table

NOW = datetime(2026, 6, 15, 9, tzinfo=UTC)
HUNDRED = {"retention": Retention.model_validate({"snapshots": "7d", "rows": "100d"})}
KEEPING = ORDERS.model_copy(update=HUNDRED)
FIRST_KEPT = date(2026, 3, 7)


def by(transform: Any) -> PartitionSpec:
    return PartitionSpec(PartitionField(2, 1000, transform, "part"))


@pytest.mark.parametrize(
    ("transform", "first"),
    [
        (DayTransform(), FIRST_KEPT),
        (HourTransform(), FIRST_KEPT),
        (MonthTransform(), date(2026, 3, 1)),
        (YearTransform(), date(2026, 1, 1)),
        (BucketTransform(4), None),
    ],
    ids=str,
)
def test_rows_go_by_whole_partitions(tmp_path, transform, first):
    assert limit(KEEPING, "silver.orders", made(tmp_path, by(transform)), NOW) == first


def test_rows_stay_where_the_contract_does_not_say_how_long(tmp_path):
    assert limit(ORDERS, "silver.orders", made(tmp_path), NOW) is None


def test_rows_stay_while_some_files_are_not_parted_by_their_time(tmp_path):
    found = made(tmp_path, PartitionSpec())
    with found.update_spec() as change:
        change.add_field("ordered_at", DayTransform())
    assert limit(KEEPING, "silver.orders", found.refresh(), NOW) is None


def test_a_table_that_was_parted_by_months_keeps_the_whole_month(tmp_path):
    found = made(tmp_path, by(MonthTransform()))
    with found.update_spec() as change:
        change.remove_field("part")
        change.add_field("ordered_at", DayTransform())
    assert limit(KEEPING, "silver.orders", found.refresh(), NOW) == date(2026, 3, 1)


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
    assert is_old(ends, FIRST_KEPT) is old


# --- The plan ---


def old_and_new(**given: Any) -> Any:
    health = table(small(1, rows=70, deleted_rows=10), small(2, rows=5), part(120), part(121, ends=None))
    old = going(health, date(2026, 1, 5))
    return planned(health, contract=KEEPING, going=old, **given)


def test_what_goes_is_counted_and_not_packed_before():
    found = old_and_new()
    assert [step.operation for step in found.steps] == ["delete_old_rows"]
    assert (
        found.steps[0].reason == "65 rows in 20 files are from before 2026-01-05, past the 100d that the contract keeps"
    )
    assert found.steps[0].rows_from == date(2026, 1, 5)


def test_rows_that_somebody_has_yet_to_take_stay_and_are_packed():
    found = old_and_new(rows_held="gold.daily has yet to take in what changed before 2026-01-05")
    assert [step.operation for step in found.steps] == ["rewrite_data_files"]
    assert found.put_off[0] == (
        "65 rows in 20 files are from before 2026-01-05, and stay as gold.daily has yet to take in what changed before "
        "2026-01-05"
    )


def test_nothing_goes_where_nothing_is_old():
    assert going(table(part(120)), date(2026, 1, 5)) is None
    assert going(table(part(1)), None) is None


# --- What must not go along ---


def compared(folder: Any, after: list[Any]) -> dict[str, int]:
    """Two versions, one of three days' files and one of those that are left, as a writer and a deletion leave them."""
    found = made(folder)
    append(found, [file(str(day), 100, day) for day in days(3)])
    base = found.current_snapshot().snapshot_id
    with found.transaction() as change, change.update_snapshot().overwrite() as kept:
        for entry in (file(str(day), 100, day) for day in days(3)):
            entry.spec_id = found.spec().spec_id
            kept.delete_data_file(entry)
        for entry in after:
            entry.spec_id = found.spec().spec_id
            kept.append_data_file(entry)
    found.refresh()
    write = TableWrite(table="silver.orders", branch="any", base=base, head=found.current_snapshot().snapshot_id)
    return lifetimes._compared(found, write, date(2026, 1, 3))


def test_what_went_is_counted_in_rows_files_and_bytes(tmp_path):
    last = file(str(days(3)[2]), 100, days(3)[2])
    assert compared(tmp_path, [last]) == {"rows": 20, "files": 2, "bytes": 200}


def test_a_file_of_a_later_day_that_would_go_is_noticed(tmp_path):
    with pytest.raises(NotOnlyOldRows, match="1 files with rows of 2026-01-03 or later would go"):
        compared(tmp_path, [])


def test_a_file_that_would_come_is_noticed(tmp_path):
    last = file(str(days(3)[2]), 100, days(3)[2])
    with pytest.raises(NotOnlyOldRows, match="1 files would come where old ones should only go"):
        compared(tmp_path, [last, file("rewritten", 90, days(3)[1])])


# --- Contracts that rows cannot go from ---


def keeping(text: str, **more: str) -> str:
    return text + "retention: {rows: 100d}\n" + "".join(f"{name}: {value}\n" for name, value in more.items())


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("silver/events.yaml", SILVER.replace("partition_by: [day(seen_at)]", "partition_by: [event_id]")
         + "retention: {rows: 100d}\n",
         "retention.rows: rows go by their partition's time; add day(column) of a date or time to partition_by"),
        ("silver/events.yaml", keeping(SILVER, delivers="snapshot"),
         "retention.rows: a snapshot brings its rows again with every interval; remove rows"),
        ("silver/events.yaml", keeping(SILVER, late_data="100d"),
         "retention.rows: must be longer than late_data: what may still arrive must find its row"),
        ("silver/events.yaml", SILVER + "retention: {rows: 36h}\n",
         "retention.rows: rows go by whole days; write 1d or more"),
        ("gold/daily.yaml", GOLD.replace("partition_by: [day]\n", "").replace(
            "rebuild: {day: silver.events.seen_at}\n", "") + "retention: {rows: 100d}\n",
         "retention.rows: rows go by their partition's time; add day(column) of a date or time to partition_by"),
    ],
)  # fmt: skip
def test_a_contract_whose_rows_cannot_go_is_refused(tmp_path, file, text, told):
    assert f"{file}: {told}" in problems(tmp_path, {file: text})


def test_rows_that_gold_would_forget_must_stay(tmp_path):
    whole = GOLD.replace("rebuild: {day: silver.events.seen_at}\n", "")
    (found,) = problems(tmp_path, {"silver/events.yaml": keeping(SILVER), "gold/daily.yaml": whole})
    assert found == (
        "silver/events.yaml: retention.rows: gold.daily does not say which of its days come from which of seen_at, and "
        "would forget its old days; add rebuild: {<its date>: silver.events.seen_at} to it, or remove rows"
    )
    assert problems(tmp_path / "fine", {"silver/events.yaml": keeping(SILVER)}) == []


def test_records_whose_order_is_no_time_must_stay(tmp_path):
    by_number = SILVER.replace("newest_by: [seen_at]", "newest_by: [event_id]")
    (found,) = problems(tmp_path, {"bronze/events.yaml": keeping(BRONZE), "silver/events.yaml": by_number})
    assert found == (
        "bronze/events.yaml: retention.rows: silver.events cannot tell a record that is newer than all that went; make "
        "a timestamp the first of its newest_by, or remove rows"
    )


def test_how_long_rows_stay_does_not_change_which_rows_come_out():
    assert KEEPING.version == ORDERS.version == contract("silver.orders").version
