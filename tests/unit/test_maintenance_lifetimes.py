"""Lifetimes: which rows and landing files go, which stay, and which contracts cannot ask for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.changes import changed_days
from lakehouse.contracts.keeping import Retention
from lakehouse.health import health
from lakehouse.maintenance.lifetimes import old_landing_files, old_rows
from lakehouse.maintenance.planned import Seen, plan
from lakehouse.naming import LIFETIME
from tests.unit import iceberg_tables as tables
from tests.unit.contract_folder import BRONZE, GOLD, SILVER, problems
from tests.unit.iceberg_tables import append, file, made
from tests.unit.test_maintenance_plan import ORDERS, YESTERDAY

KEPT = Retention.model_validate({"snapshots": "7d", "rows": "10d"})


@pytest.fixture
def table(tmp_path):
    """A file a day, for three days."""
    found = made(tmp_path)
    for day in tables.days(3):
        append(found, [file(str(day), 5, day)])
    return found


def after(days: int, **more: int) -> datetime:
    """Some days after the first of the three days began."""
    return tables.midnight(tables.DAY) + timedelta(days=days, **more)


@pytest.mark.parametrize(
    ("now", "gone"),
    [(after(10, hours=23), 0), (after(11), 1), (after(12, hours=5), 2), (after(90), 3)],
    ids=["the day is not over ten days ago", "the first day", "two days", "all"],
)
def test_a_partition_goes_when_all_of_its_time_is_over(table, now, gone):
    named = [name for step in old_rows("silver.orders", KEPT, health(table), now) for name in step.partitions]
    assert named == [f"ordered_at_day={day}" for day in tables.days(3)[:gone]]


def test_rows_without_a_lifetime_are_kept_for_ever(table):
    for_ever = Retention.model_validate({"snapshots": "7d"})
    assert list(old_rows("silver.orders", for_ever, health(table), after(9_999))) == []


def test_only_the_old_partitions_are_named_in_the_deletion(table):
    (step,) = old_rows("silver.orders", KEPT, health(table), after(11))
    assert step.call is not None
    assert step.call.where == (
        "(`ordered_at` >= TIMESTAMP '2026-01-01 00:00:00' AND `ordered_at` < TIMESTAMP '2026-01-02 00:00:00')"
    )
    assert step.rows_from == datetime(2026, 1, 2, tzinfo=UTC)
    assert "Deletes these 10 rows" in step.does


def test_rows_of_a_partition_without_time_stay(tmp_path):
    found = made(tmp_path, tables.NO_SPEC)
    append(found, [file("a", 5, None)])
    assert list(old_rows("silver.orders", KEPT, health(found), after(9_999))) == []


def test_what_is_deleted_is_not_rewritten_first(table):
    append(table, [file(f"more-{n}", 5) for n in range(9)])
    short = ORDERS.model_copy(update={"retention": KEPT})
    found = plan(Seen("silver.orders", short, health(table), after(11), last_done=YESTERDAY))
    assert [step.operation for step in found.steps] == ["delete_rows"]


def test_the_end_of_rows_is_no_change_for_what_was_made_from_them(table):
    """Gold would else be built again for those days, from nothing."""
    before = table.current_snapshot().snapshot_id
    table.delete(snapshot_properties={LIFETIME: "true"})
    until = table.current_snapshot().snapshot_id
    assert until != before
    assert changed_days(table, "ordered_at", before, until) == set()
    assert health(table).written_at == health_at(table, before)


def health_at(table, snapshot_id: int) -> datetime:
    return datetime.fromtimestamp(table.snapshot_by_id(snapshot_id).timestamp_ms / 1000, UTC)


def test_landing_files_go_when_the_contract_says_so():
    kept = Retention.model_validate({"snapshots": "7d", "landing": "30d", "archive": True})
    (step,) = old_landing_files("bronze.orders", kept, 3)
    assert step.reason == "3 landing files were ingested more than 30d ago"
    assert step.does.startswith("Moves them to _archive/")
    assert list(old_landing_files("bronze.orders", kept, 0)) == []
    assert list(old_landing_files("bronze.orders", KEPT, 3)) == []


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("gold/daily.yaml", f"{GOLD}\nretention: {{rows: 400d}}", "retention.rows: needs a partition of time"),
        ("silver/events.yaml", f"{SILVER}\nretention: {{landing: 90d}}", "retention.landing: means nothing here"),
        ("bronze/events.yaml", f"{BRONZE}\nretention: {{landing: 6d}}", "retention.landing: a version that is rolled"),
        ("bronze/events.yaml", f"{BRONZE}\nretention: {{archive: true}}", "retention.archive: means nothing without"),
        ("silver/events.yaml", f"{SILVER}\nmaintenance: {{orphans_after: 2d}}", "maintenance.orphans_after: a file"),
        ("silver/events.yaml", f"{SILVER}\nmaintenance: {{strategy: zorder}}", "maintenance: strategy zorder needs"),
    ],
)
def test_a_lifetime_that_cannot_be_kept_is_refused_with_the_field_and_the_fix(tmp_path, name, text, told):
    (found,) = problems(tmp_path, {name: text})
    assert found.startswith(f"{name}: {told}")


def test_lifetimes_that_can_be_kept_are_accepted(tmp_path):
    changes = {
        "bronze/events.yaml": f"{BRONZE}\nretention: {{rows: 400d, landing: 30d, archive: true}}",
        "silver/events.yaml": f"{SILVER}\nretention: {{rows: 400d}}",
    }
    assert problems(tmp_path, dict(changes)) == []
