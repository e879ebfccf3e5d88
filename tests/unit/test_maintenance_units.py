"""What is rewritten together or not at all, what is left alone, and one budget for all of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse.health.model import PartitionHealth, TableHealth
from tests.unit.plan_world import MEGABYTE, NOW, conditions, part, planned, small, table

OPEN_FROM = datetime(2026, 1, 3, tzinfo=UTC)  # day 1 ends then, day 2 a day later


def bucket(day: int, number: int, **changed: Any) -> PartitionHealth:
    return small(day, **{"name": f"day={day}/id_bucket={number}", **changed})


def test_all_buckets_of_a_day_are_one_unit_as_one_condition_picks_them():
    healthy = part(2, name="day=2/id_bucket=1")
    found = planned(table(bucket(1, 0), bucket(1, 1), bucket(2, 0), healthy))
    assert conditions(found) == ["(day = 1) OR (day = 2)"]
    (step,) = found.steps
    assert step.bytes == 60 * MEGABYTE
    assert step.call.options["max-files-to-rewrite"] == "30"
    assert "in day=1/id_bucket=0 and 2 more partitions 30 of 30 files are smaller" in step.reason


def test_what_no_condition_picks_is_put_off_where_others_have_one():
    beyond = small(1, name="day=3000000", where=None, ends=None)
    found = planned(table(small(1), beyond, part(2)), open_from=OPEN_FROM)
    assert conditions(found) == ["(day = 1)"]
    assert found.put_off == ("day=3000000 cannot be rewritten without the whole table: no condition picks it",)
    healthy = beyond.model_copy(update={"small_files": 0, "small_bytes": 0})
    assert planned(table(small(1), healthy)).put_off == ()


def test_a_condition_that_picks_more_than_its_own_never_picks_what_is_being_written():
    """Of an older partitioning by region alone, files are left; since then it is by day, too."""
    north, south = (small(0, name=f"region={one}", where=f"region = '{one}'", ends=None) for one in ("n", "s"))
    today = part(2, where="day >= 2 AND day < 3 AND region = 'n'")
    found = planned(table(north, south, today), open_from=OPEN_FROM)
    assert conditions(found) == ["(region = 's')"]
    assert found.put_off == ("region=n is still being written",)
    assert conditions(planned(table(north, south, today))) == ["(region = 'n') OR (region = 's')"]


@pytest.mark.parametrize(("ends", "rewritten"), [(2027, False), (2099, True)])
def test_a_time_that_batches_will_not_come_to_is_not_being_written(ends, rewritten):
    found = planned(table(small(1, ends=datetime(ends, 1, 1, tzinfo=UTC))), open_from=OPEN_FROM)
    assert bool(found.steps) is rewritten


def test_partitions_of_which_much_is_deleted_are_rewritten_apart_from_others():
    """In these, a file is taken for a single deleted row."""
    deleted = part(1, deleted_rows=200, delete_files=1)
    few = small(2, deleted_rows=50, delete_files=40)
    found = planned(table(deleted, few))
    assert conditions(found) == ["(day = 2)", "(day = 1)"]
    asked = [step.call.options.get("delete-file-threshold") for step in found.steps if step.call]
    assert asked == [None, "1"]
    assert found.steps[0].call.options["delete-ratio-threshold"] == "1.0", "else files of 30 % come along"


def test_files_that_are_cut_up_are_counted_and_told():
    found = planned(table(small(1, files=5, megabytes=5, large_files=0), oversized()), {"budget_mb": 1_000})
    assert conditions(found) == ["(day = 1)", "(day = 2)"]
    assert found.steps[1].call.options["max-files-to-rewrite"] == "2"
    assert "5 of 105 files are smaller" in found.steps[1].reason
    assert "100 of 105 files are larger than 230 MB (part 1 of 53)" in found.steps[1].reason
    assert "A writer waits for up to 800 MB, which cannot be cut into slices of 512 MB." in found.steps[1].does
    assert found.put_off == ("38 GB in 1 partition are beyond this window's 1000 MB",)


def oversized() -> PartitionHealth:
    small_bytes, large_bytes = 5 * MEGABYTE, 40_000 * MEGABYTE
    return part(
        2,
        files=105,
        bytes=small_bytes + large_bytes,
        small_files=4,
        small_bytes=small_bytes,
        large_files=100,
        large_bytes=large_bytes,
        needed_files=313,
    )


def purged(found: TableHealth, **given: Any) -> list[Any]:
    steps = planned(found, **given).steps
    return [one for one in steps if one.call and "rewrite-all" in one.call.options]


def test_files_that_hold_a_dropped_column_are_written_again_in_time_and_only_they():
    old = NOW - timedelta(days=8)
    found = table(part(1, dropped_files=1), part(2), part(3, dropped_files=2, files=3), last_with_dropped=old)
    (step,) = purged(found)
    assert step.call.where == "(day = 1) OR (day = 3)"
    assert step.reason == "in day=1 and 1 more partition 3 files still hold columns that were dropped"
    assert step.bytes == 200 * MEGABYTE
    assert purged(found.model_copy(update={"last_with_dropped": NOW - timedelta(days=6)})) == []
    (unknown,) = purged(found.model_copy(update={"last_with_dropped": None}))
    assert unknown.call == step.call, "where no version of that time is left, it is long ago"


def test_dropped_columns_of_a_partition_that_is_being_written_wait_and_budget_and_slices_are_kept():
    parts = [part(day, dropped_files=1) for day in range(1, 8)]
    found = table(*parts, last_with_dropped=NOW - timedelta(days=30))
    open_from = datetime(2026, 1, 7, tzinfo=UTC)
    steps = purged(found, open_from=open_from, policy={"slice_mb": 200, "budget_mb": 400})
    assert [one.call.where for one in steps] == ["(day = 1) OR (day = 2)", "(day = 3) OR (day = 4)"]


def test_dropped_columns_of_a_table_that_nothing_divides_wait_where_it_is_more_than_a_windows_budget():
    """It would be one step that holds the lease until all of it is written."""
    whole = table(part(1, where=None, dropped_files=1), last_with_dropped=NOW - timedelta(days=30))
    (step,) = purged(whole, policy={"budget_mb": 100})
    assert step.call.where is None
    assert purged(whole, policy={"budget_mb": 99}) == []
    (later,) = planned(whole, policy={"budget_mb": 99}).put_off
    assert later == (
        "100 MB in day=1 that hold dropped columns have to be rewritten at once, and are more than a window's 99 MB; "
        "raise budget_mb"
    )


OLD = NOW - timedelta(days=30)


def test_dropped_columns_and_small_files_have_one_budget():
    found = planned(table(part(1, dropped_files=1), small(2), small(3), last_with_dropped=OLD), {"budget_mb": 120})
    assert conditions(found) == ["(day = 1)", "(day = 2)"]
    assert found.put_off == ("20 MB in 1 partition are beyond this window's 120 MB",)


def test_what_is_written_again_without_dropped_columns_is_not_packed_in_the_same_window():
    assert conditions(planned(table(small(1, dropped_files=1), last_with_dropped=OLD))) == ["(day = 1)"]


def test_a_partition_with_dropped_columns_that_is_more_than_a_slice_says_how_long_a_writer_waits():
    big = part(1, bytes=600 * MEGABYTE, files=5, dropped_files=1)
    (step,) = planned(table(big, last_with_dropped=OLD)).steps
    assert "A writer waits for up to 600 MB, which cannot be cut into slices of 512 MB." in step.does


def test_dropped_columns_beyond_a_window_wait_for_the_next_and_those_of_no_window_say_what_to_do():
    parts = (part(1, dropped_files=1), part(2, dropped_files=1), part(3, bytes=900 * MEGABYTE, dropped_files=1))
    found = planned(table(*parts, last_with_dropped=OLD), {"budget_mb": 150})
    assert conditions(found) == ["(day = 1)"]
    waiting, too_large = found.put_off
    assert waiting == "100 MB that hold dropped columns are beyond this window's 150 MB"
    assert too_large.startswith("900 MB in day=3 that hold dropped columns have to be rewritten at once, and ")
    assert too_large.endswith(" are more than a window's 150 MB; raise budget_mb")
