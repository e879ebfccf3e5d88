"""What maintenance must never take away: versions that something keeps, files of others, files that a version names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError, ServerError
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetLocationUpdate
from pyiceberg.typedef import Identifier

from lakehouse.catalog import NotAllowed
from lakehouse.maintenance import orphans
from lakehouse.maintenance.expiry import expirable
from lakehouse.maintenance.orphans import NoOrphans, PlacesUnknown, confirm, mixed, refusal, shared, still_old
from lakehouse.maintenance.proof import RowsChanged, check_rows
from lakehouse.maintenance.reachable import outside, reachable
from lakehouse.maintenance.window import begins, is_open
from tests.unit.iceberg_tables import append, catalog, file, replace, set_ref, versions

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
    monkeypatch.setattr(orphans, "_places", dict)
    monkeypatch.setattr(orphans, "reachable", lambda _: [named])
    for guard in off:
        monkeypatch.setattr(orphans, guard, lambda *_: "")
    with pytest.raises(NoOrphans, match=told) if told else nullcontext():
        orphans.look_again("silver.orders", found, [named.replace("s3a", "s3")])


class Closed:
    """A catalog that answers for all tables but one, or for all namespaces but one."""

    def __init__(self, known: Catalog, error: Exception, *, at: str) -> None:
        self.known, self.error, self.at = known, error, at

    def list_namespaces(self, above: Identifier) -> list[Identifier]:
        return self._answer("namespaces", self.known.list_namespaces, above)

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        return self._answer("tables", self.known.list_tables, namespace)

    def load_table(self, name: Identifier) -> Table:
        return self._answer("table", self.known.load_table, name)

    def _answer(self, what: str, ask: Callable[[Any], Any], name: Identifier) -> Any:
        if (what, name[-1:]) == (self.at, ("theirs",)):
            raise self.error
        return ask(name)


REFUSED, BROKEN = NotAllowed("the catalog at x refuses: no"), ServerError("500: it is out of order")
GONE = NoSuchTableError("it was dropped")


@pytest.mark.parametrize(
    ("at", "error", "told"),
    [
        ("table", REFUSED, "where foreign.theirs keeps its files cannot be told: the catalog at x refuses: no"),
        ("table", BROKEN, "where foreign.theirs keeps its files cannot be told: 500: it is out of order"),
        ("table", GONE, ""),
        ("tables", REFUSED, "where theirs keeps its files cannot be told: the catalog at x refuses: no"),
        ("namespaces", BROKEN, "where theirs keeps its files cannot be told: 500: it is out of order"),
    ],
)
def test_where_the_catalog_does_not_say_what_another_table_has_its_files_orphans_stay(
    table, tmp_path, monkeypatch, at, error, told
):
    """And nothing else does: it is a reason not to look for them, and no failure of the plan."""
    known = with_namespaces(tmp_path, "foreign")
    known.create_namespace("theirs")
    known.create_table("foreign.theirs", table.schema(), location=f"file://{tmp_path}/elsewhere")
    monkeypatch.setattr(orphans, "catalog", lambda: Closed(known, error, at=at))
    monkeypatch.setattr(orphans, "mixed", lambda *_: "")
    assert refusal("silver.orders", table) == told
    with pytest.raises(PlacesUnknown, match=told) if told else nullcontext():
        orphans.look_again("silver.orders", table, [])


def test_a_catalog_that_is_away_is_no_reason_to_leave_orphans_alone_but_an_error(table, tmp_path, monkeypatch):
    away = requests.ConnectionError("it is away")
    monkeypatch.setattr(orphans, "catalog", lambda: Closed(catalog(tmp_path), away, at="namespaces"))
    catalog(tmp_path).create_namespace("theirs")
    with pytest.raises(requests.ConnectionError):
        refusal("silver.orders", table)


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
    known = {"silver.orders": ["s3://lake/silver/orders"], "x.other": ["s3://lake/x/other", other]}
    assert ("shared with x.other" in shared("silver.orders", "s3://lake/silver/orders", known)) is is_shared


@pytest.mark.parametrize(
    "setting", ["write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"]
)
@pytest.mark.parametrize("namespace", ["silver", "deep.deeper.deepest"])
def test_a_folder_into_which_another_table_writes_is_shared_however_deep_that_table_lies(
    table, tmp_path, monkeypatch, setting, namespace
):
    known = with_namespaces(tmp_path, namespace)
    monkeypatch.setattr(orphans, "catalog", lambda: known)
    assert "shared" not in refusal("silver.orders", table)
    inside = {setting: f"{table.location()}/theirs"}
    known.create_table(f"{namespace}.other", table.schema(), location=f"file://{tmp_path}/elsewhere", properties=inside)
    assert f"is shared with {namespace}.other" in refusal("silver.orders", table)


def test_a_folder_in_which_another_table_was_before_it_moved_is_shared(table, tmp_path, monkeypatch):
    known = catalog(tmp_path)
    monkeypatch.setattr(orphans, "catalog", lambda: known)
    other = known.create_table("silver.other", table.schema(), location=f"{table.location()}/theirs")
    append(other, [file("theirs", 5, day=None)])
    known.commit_table(other, (), (SetLocationUpdate(location=f"file://{tmp_path}/elsewhere"),))
    assert known.load_table("silver.other").location() == f"file://{tmp_path}/elsewhere"
    assert "is shared with silver.other" in refusal("silver.orders", table)


def with_namespaces(folder: Path, deepest: str) -> Catalog:
    known, parts = catalog(folder), deepest.split(".")
    for depth in range(len(parts)):
        known.create_namespace_if_not_exists(".".join(parts[: depth + 1]))
    return known


def test_only_files_that_are_there_and_old_enough_are_confirmed(table, monkeypatch):
    old, young = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 9, tzinfo=UTC)
    there = [("s3://lake/a", old), ("s3://lake/b", young), ("s3://lake/nobody asked", old)]
    monkeypatch.setattr(orphans, "written", lambda _: there)
    found = still_old(table, ["s3://lake/a", "s3://lake/b", "s3://lake/gone"], datetime(2026, 1, 5, tzinfo=UTC))
    assert found == (("s3://lake/a", old),)


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


DELETES = {"total-position-deletes": "20"}


@pytest.mark.parametrize(
    ("version", "after", "right"),
    [
        (2, {"total-records": "40"}, True),  # all deletes applied, and still counted
        (2, {"total-records": "50"}, True),
        (2, {"total-records": "40", "total-position-deletes": "0"}, True),
        (2, {"total-records": "60"}, True),
        (2, {"total-records": "39"}, False),
        (2, {"total-records": "61", "total-position-deletes": "21"}, False),
        (3, {"total-records": "40", "total-position-deletes": "0"}, True),
        (3, {"total-records": "40"}, False),
    ],
)
def test_up_to_format_2_deletes_that_are_applied_may_still_be_counted(table, version, after, right):
    """Iceberg takes such delete files away in a commit of its own, and deletion vectors in that of their rows."""
    replace(table, **DELETES)
    since = versions(table)[-1]
    replace(table, **after)
    table.metadata = table.metadata.model_copy(update={"format_version": version})
    with nullcontext() if right else pytest.raises(RowsChanged, match="had 40 rows before maintenance"):
        check_rows("silver.orders", table, since)


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


def test_a_window_is_of_utc_whatever_the_clock_says():
    noon = datetime(2026, 6, 1, 12, 15, tzinfo=timezone(timedelta(hours=9)))
    assert is_open("03:00-04:00", noon)


@pytest.mark.parametrize("schedule", ["0 * * * *", "0 3 * * *", "0 4 * * 0"])
@pytest.mark.parametrize("window", ["22:00-02:00", "22:10-22:50", "01:30-05:00", "00:00-23:59"])
def test_each_tier_begins_at_a_time_when_the_window_is_open(window, schedule):
    minute, hour, *days = begins(window, schedule).split()
    hours = range(24) if hour == "*" else [int(hour)]
    assert any(is_open(window, datetime(2026, 6, 1, at, int(minute), tzinfo=UTC)) for at in hours)
    assert days == schedule.split()[2:]
    assert (hour == "*") is ("* * * *" in schedule)


def test_without_a_window_a_tier_begins_when_its_dag_says():
    assert begins("", "0 4 * * 0") == "0 4 * * 0"
