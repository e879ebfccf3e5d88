"""The maintenance plan: what is done, to which partitions, in which slices, and why; and what is left alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from lakehouse.contracts.keeping import Maintenance
from lakehouse.intervals import Coverage, Interval
from lakehouse.maintenance import seen
from lakehouse.maintenance.expiry import expirable
from lakehouse.maintenance.landing_files import Clearing
from lakehouse.maintenance.landing_folders import Leaving
from lakehouse.maintenance.planned import Seen, TooYoung, orphans_before, plan
from lakehouse.maintenance.seen import expire_until, still_open
from lakehouse.maintenance.step import Plan
from lakehouse.table_properties import wanted
from tests.unit.iceberg_tables import with_versions
from tests.unit.landing_world import contract as landing
from tests.unit.landing_world import due, version
from tests.unit.plan_world import MEGABYTE, NOW, ORDERS, conditions, part, planned, small, table


def test_a_healthy_table_is_left_alone():
    assert planned(table(part(1), part(2))) == Plan(table="silver.orders")


def test_only_the_partitions_that_need_it_are_rewritten():
    found = planned(table(part(1), small(2), part(3), small(4)))
    assert [step.operation for step in found.steps] == ["rewrite_data_files"]
    assert conditions(found) == ["(day = 2) OR (day = 4)"]
    assert "in day=2 and 1 more partition 20 of 20 files are smaller" in found.steps[0].reason


@pytest.mark.parametrize(("files", "rewritten"), [(4, False), (5, True)])
def test_a_few_small_files_are_left_alone(files, rewritten):
    assert bool(planned(table(small(1, files))).steps) is rewritten


@pytest.mark.parametrize(("deleted", "rewritten"), [(0, False), (100, False), (101, True)])
def test_a_partition_of_whose_rows_many_are_deleted_is_rewritten(deleted, rewritten):
    found = planned(table(part(1, deleted_rows=deleted, delete_files=1)))
    assert bool(found.steps) is rewritten
    if rewritten:
        assert "101 of 1000 rows are deleted but still read" in found.steps[0].reason
        assert found.steps[0].call.options["delete-file-threshold"] == "1"


def test_any_deleted_row_is_too_many_where_the_contract_says_so():
    found = planned(table(part(1, deleted_rows=1, delete_files=1)), {"deleted_share": "0%"})
    assert found.steps[0].call.options["delete-file-threshold"] == "1"


def test_a_few_deleted_rows_do_not_make_a_full_file_small():
    found = planned(table(small(1, deleted_rows=10, delete_files=1)))
    assert "delete-file-threshold" not in found.steps[0].call.options


def test_the_partition_that_is_being_written_is_never_rewritten():
    open_from = datetime(2026, 1, 3, tzinfo=UTC)  # day 1 ends then, day 2 a day later
    found = planned(table(small(1), small(2)), open_from=open_from)
    assert conditions(found) == ["(day = 1)"]
    assert found.put_off == ("day=2 is still being written",)


def test_what_comes_after_the_newest_interval_that_is_there_is_still_open():
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    covered = Coverage.of([Interval(days[0], days[1])])
    assert still_open(ORDERS, covered) == days[1]
    ended = ORDERS.model_copy(update={"end": days[1].date()})
    assert still_open(ended, covered) is None
    assert still_open(ended, Coverage()) is None


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Europe/Berlin", "America/New_York"])
def test_a_contract_has_ended_when_its_last_day_is_over_in_its_own_zone(zone):
    contract = ORDERS.model_copy(update={"end": date(2026, 1, 3), "timezone": zone})
    over = datetime(2026, 1, 3, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    for until, expected in ((over, None), (over - timedelta(hours=1), over - timedelta(hours=1))):
        covered = Coverage.of([Interval(over - timedelta(days=2), until)])
        assert still_open(contract, covered) == expected


def test_slices_are_no_larger_than_the_contract_says():
    found = planned(table(*(small(day, megabytes=40) for day in range(5))), {"slice_mb": 100})
    assert conditions(found) == ["(day = 0) OR (day = 1)", "(day = 2) OR (day = 3)", "(day = 4)"]
    assert [step.bytes for step in found.steps] == [80 * MEGABYTE, 80 * MEGABYTE, 40 * MEGABYTE]


def test_a_partition_larger_than_a_slice_is_rewritten_in_parts():
    found = planned(table(small(1, files=100, megabytes=250)), {"slice_mb": 100})
    assert conditions(found) == ["(day = 1)"] * 3
    assert {step.call.options["max-files-to-rewrite"] for step in found.steps} == {"34"}
    assert found.steps[1].reason.endswith("(part 2 of 3)")


def test_the_budget_goes_where_most_is_won_for_each_byte():
    worst = small(3, files=1_000)
    found = planned(table(small(1), small(2), worst), {"budget_mb": 45})
    assert conditions(found) == ["(day = 3) OR (day = 1)"]
    assert found.put_off == ("20 MB in 1 partition are beyond this window's 45 MB",)


def test_a_partition_larger_than_the_budget_has_its_turn_all_the_same():
    assert conditions(planned(table(small(1, megabytes=90)), {"budget_mb": 10})) == ["(day = 1)"]


def test_partitions_that_no_condition_picks_are_rewritten_as_the_whole_table():
    found = planned(table(small(1, where=None), small(2, where=None)))
    assert conditions(found) == [None]


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ({}, None),
        ({"sort_by": ["customer_id", "order_id"]}, "`customer_id`, `order_id`"),
        ({"strategy": "zorder", "sort_by": ["region", "category"]}, "zorder(`region`, `category`)"),
    ],
)
def test_files_are_ordered_by_what_the_contract_says(policy, order):
    assert planned(table(small(1)), policy).steps[0].call.sort_order == order


def test_a_companion_has_other_columns_and_is_not_sorted():
    found = planned(table(small(1)), {"sort_by": ["customer_id"]}, name="quarantine.silver_orders")
    assert found.steps[0].call.sort_order is None


def test_many_small_lists_of_files_are_merged():
    assert [step.operation for step in planned(table(manifests=21)).steps] == ["rewrite_manifests"]
    assert planned(table(manifests=20)).steps == ()
    assert planned(table(manifests=21, manifest_bytes=21 * 8 * MEGABYTE)).steps == ()


def test_versions_past_their_time_expire():
    (step,) = planned(table(), expirable=3).steps
    assert step.operation == "expire_snapshots"
    assert (step.call.older_than, step.call.retain_last) == (NOW - timedelta(days=7), 5)


def test_many_versions_expire_some_hundreds_at_a_time(tmp_path, monkeypatch):
    """A writer waits for one step, and each of them has fewer files to remove."""
    found = with_versions(tmp_path, 8).metadata
    times = [datetime.fromtimestamp(one.timestamp_ms / 1000, UTC) for one in found.snapshots]
    limit = times[-1] + timedelta(days=1)
    assert expire_until(found, limit, expirable(found, limit, 1, limit)) == ()
    monkeypatch.setattr(seen, "_EXPIRED_AT_ONCE", 3)
    until = expire_until(found, limit, expirable(found, limit, 1, limit))
    assert until == (times[3], times[6]), "three, three, and the one before the newest"
    first, second, last = planned(table(), expirable=7, expire_until=until).steps
    assert [one.call.older_than for one in (first, second, last)] == [*until, NOW - timedelta(days=7)]
    assert second.reason == "7 old versions are past the 7d that the contract keeps (part 2 of 3)"


def test_settings_that_differ_from_the_contract_are_set_and_others_left_alone():
    found = planned(table(), properties={"a": "1", "b": "2", "own": "x"}, wanted={"a": "1", "b": "3"})
    assert [step.properties for step in found.steps] == [{"b": "3"}]


def test_of_wide_tables_more_columns_are_noted_than_iceberg_does_by_itself():
    """A dropped column is found in a file by its size there."""
    for name in ORDERS.tables:
        assert wanted(ORDERS, name)["write.metadata.metrics.max-inferred-column-defaults"] == "1000"


@pytest.mark.parametrize("megabytes", [1, 8, 128, 512, 4_096])
def test_what_is_written_can_be_cut_where_a_rewrite_packs_it(megabytes):
    """With Iceberg's own row groups a file of the default target is one, and fits to no other."""
    policy = Maintenance(target_file_mb=megabytes)
    for name in ORDERS.tables:
        group = wanted(ORDERS.model_copy(update={"maintenance": policy}), name)["write.parquet.row-group-size-bytes"]
        assert int(group) == min(128 * MEGABYTE, policy.target_bytes // 4)


def test_landing_is_cleared_last():
    """What its files do to the store must not keep the table from what it needs."""
    leaving = (Leaving(due("A"), version("A", current=True)),)
    looked_at = Seen("bronze.events", landing(delete_after="1d"), table(manifests=99), NOW, expirable=3)
    found = plan(replace(looked_at, clearing=Clearing(leaving)))
    done = [step.operation for step in found.steps]
    assert done == ["rewrite_manifests", "expire_snapshots", "remove_orphan_files", "clear_landing"]


def test_orphans_are_looked_for_as_often_as_the_contract_says_and_listed_first():
    week = {"remove_orphan_files": NOW - timedelta(days=7)}
    for last in ({}, week):
        (step,) = planned(table(), last_done=last).steps
        assert step.operation == "remove_orphan_files"
        assert step.call.dry_run is True
        assert step.call.older_than == NOW - timedelta(days=3)
    assert planned(table(snapshot_id=None), last_done={}).steps == ()


def test_orphans_are_not_removed_where_that_is_refused():
    found = planned(table(), last_done={}, orphans_refused="its folder is shared with gold.other")
    assert found.steps == ()
    assert "shared with gold.other" in found.put_off[0]


def test_no_contract_can_have_young_files_removed():
    """A contract is refused when it is read; should one come by another way, the plan refuses it, too."""
    with pytest.raises(ValueError, match="younger than 3d may belong to a write that is not done"):
        Maintenance.model_validate({"orphans_after": "0d"})
    forced = Maintenance.model_construct(orphans_after=timedelta(0), orphans_every=timedelta(0))
    with pytest.raises(TooYoung, match="orphans_after is 3d at least"):
        orphans_before(forced, NOW)
