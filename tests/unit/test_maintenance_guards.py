"""What maintenance must never take away: versions that something keeps, files of others, files that a version names."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from pyiceberg.table.refs import SnapshotRefType

from lakehouse.maintenance import orphans
from lakehouse.maintenance.expiry import expirable
from lakehouse.maintenance.orphans import NoOrphans, confirm, mixed, shared
from lakehouse.maintenance.proof import RowsChanged, check_rows
from lakehouse.maintenance.reachable import outside, reachable
from lakehouse.maintenance.window import is_open
from tests.unit.iceberg_tables import append, file, replace, set_ref, versions

HOUR = timedelta(hours=1)


def later(found, keep_last: int, after: timedelta = HOUR) -> int:
    """How many versions would expire if all of them were past their time."""
    now = datetime.now(UTC) + after
    return expirable(found.metadata, now, keep_last, now)


def test_the_newest_versions_are_kept_whatever_their_age(table):
    assert later(table, 1) == 5
    assert later(table, 5) == 1
    assert later(table, 9) == 0


def test_versions_within_their_time_are_kept(table):
    now = datetime.now(UTC)
    assert expirable(table.metadata, now - HOUR, 1, now) == 0


def test_a_tag_keeps_its_version(table):
    set_ref(table, "training", SnapshotRefType.TAG, versions(table)[0])
    assert later(table, 1) == 4


def test_a_tag_whose_time_is_over_keeps_nothing(table):
    set_ref(table, "training", SnapshotRefType.TAG, versions(table)[0], **{"max-ref-age-ms": 60_000})
    assert later(table, 1, HOUR) == 5
    assert later(table, 1, timedelta(seconds=5)) == 4


def test_a_branch_keeps_its_newest_versions(table):
    set_ref(table, "audit_x", SnapshotRefType.BRANCH, versions(table)[2])
    assert later(table, 1) == 4
    assert later(table, 2) == 2


def test_every_file_of_every_version_is_reachable(table):
    set_ref(table, "training", SnapshotRefType.TAG, versions(table)[0])
    table.delete()
    found = set(reachable(table))
    assert {path for path in found if path.endswith(".parquet")} == {
        f"s3://lake/silver/orders/data/{number}.parquet" for number in range(6)
    }
    lists = {snapshot.manifest_list for snapshot in table.metadata.snapshots}
    assert lists | {table.metadata_location} <= found


def test_a_file_that_a_version_names_is_no_orphan(table):
    confirm("silver.orders", reachable(table), ["s3://lake/silver/orders/data/strange.parquet"])
    for scheme in ("s3", "s3a"):
        with pytest.raises(NoOrphans, match="1 files would be removed that its versions name"):
            confirm("silver.orders", reachable(table), [f"{scheme}://lake/silver/orders/data/3.parquet"])


@pytest.mark.parametrize(
    ("off", "told"),
    [((), "has files in s3a://lake"), (("mixed",), "that its versions name"), (("mixed", "confirm"), "")],
)
def test_a_file_that_is_named_under_another_scheme_is_stopped_twice(monkeypatch, off, told):
    """With both guards off its removal would go on."""
    named = "s3a://lake/silver/orders/data/named.parquet"
    found = SimpleNamespace(location=lambda: "s3://lake/silver/orders")
    monkeypatch.setattr(orphans, "_locations", dict)
    monkeypatch.setattr(orphans, "reachable", lambda _: [named])
    for guard in off:
        monkeypatch.setattr(orphans, guard, lambda *_: "")
    with pytest.raises(NoOrphans, match=told) if told else nullcontext():
        orphans.look_again("silver.orders", found, [named.replace("s3a", "s3")])


@pytest.mark.parametrize(
    ("other", "is_shared"),
    [
        ("s3://lake/silver/orders", True),
        ("s3a://lake/silver/orders/", True),
        ("s3://lake/silver/orders/inner", True),
        ("s3://lake/silver", True),
        ("s3://lake/silver/orders_changes", False),
        ("s3://other/silver/orders", False),
    ],
)
def test_a_folder_that_another_table_uses_is_shared(other, is_shared):
    known = {"silver.orders": "s3://lake/silver/orders", "x.other": other}
    assert ("shared with x.other" in shared("silver.orders", "s3://lake/silver/orders", known)) is is_shared


def test_files_under_another_scheme_are_mixed():
    own = "s3://lake/silver/orders"
    assert mixed(own, [f"{own}/data/a.parquet"]) == ""
    assert "has files in s3a://lake" in mixed(own, [f"{own}/a", "s3a://lake/silver/orders/data/a.parquet"])


def test_what_lies_beside_the_folder_is_outside():
    assert outside("s3://lake/silver/orders_changes/a", "s3://lake/silver/orders")
    assert not outside("s3://lake/silver/orders/a", "s3://lake/silver/orders/")


def test_a_rewrite_that_keeps_the_rows_is_proven_and_one_that_does_not_is_found(table):
    before = versions(table)[-1]
    replace(table)
    check_rows("silver.orders", table, before)
    kept = versions(table)[-1]
    replace(table, **{"total-records": "59"})
    check_rows("silver.orders", table, versions(table)[-1])
    with pytest.raises(RowsChanged, match="had 60 rows before maintenance, should have as many after it, and has 59"):
        check_rows("silver.orders", table, kept)


def test_rows_that_somebody_else_adds_meanwhile_are_not_taken_for_a_change(table):
    before = versions(table)[-1]
    append(table, [file("other", 5)])
    replace(table)
    append(table, [file("another", 5)])
    check_rows("silver.orders", table, before)


@pytest.mark.parametrize(
    ("window", "hour", "opened"),
    [("", 12, True), ("01:00-05:30", 5, True), ("01:00-05:30", 6, False), ("22:00-06:00", 23, True),
     ("22:00-06:00", 3, True), ("22:00-06:00", 12, False)],
)  # fmt: skip
def test_a_window_may_reach_over_midnight(window, hour, opened):
    assert is_open(window, datetime(2026, 6, 1, hour, 15, tzinfo=UTC)) is opened
