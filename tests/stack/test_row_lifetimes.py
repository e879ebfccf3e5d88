"""Rows past their time go, on the real stack: what goes, what stays, and what everybody else makes of it.

Days of January are old by the clock that these tests pass on; nothing waits.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from lakehouse.catalog import catalog, rows_from
from lakehouse.errors import LakehouseError
from lakehouse.ledger import maintenance as log
from lakehouse.maintenance import lifetimes
from lakehouse.maintenance.carried_out import carry_out
from lakehouse.naming import table_sql
from lakehouse.plan import Attempt
from lakehouse.query import run_sql
from lakehouse.rollback import planned as rollbacks
from lakehouse.settings import settings
from tests.stack.foreign import Source, lines
from tests.stack.shop import in_session
from tests.stack.tables import loaded
from tests.stack.worn import DAYS, Worn, keep, planned, worn_table

FIRST, SECOND, THIRD = DAYS
COLUMNS = """
  id:   {type: bigint, required: true, from: id}
  name: {type: string, required: true, from: name}
  at:   {type: timestamp, required: true, from: at}
"""
CHANGES = "delivers: changes\nkey: [id]\nnewest_by: [at]\npartition_by: [day(at)]\nchange_feed: true"
GOLD = """
dataset: gold.{name}
description: Names a day.
owner: team
start: 2026-01-01
reads: silver.{name}
columns:
  day:   {{type: date, required: true}}
  names: {{type: bigint, required: true}}
partition_by: [day]
rebuild: {{day: silver.{name}.at}}
"""
SQL = "SELECT CAST(at AS DATE) AS day, COUNT(*) AS names FROM silver_{name} GROUP BY ALL"


def noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


def old_since(day: date, kept: int) -> datetime:
    """When rows of the days before that one are past so many days."""
    return noon(day) + timedelta(kept)


@pytest.fixture
def worn(spark) -> Iterator[Worn]:
    yield from worn_table(spark)


def letting_go(worn: Worn, spark: Any, now: datetime, kept: str = "10d") -> list[str]:
    return keep(worn.contract(retention={"rows": kept}), in_session(spark), "delete_old_rows", now=now)


# --- One table ---


def test_whole_days_go_from_main_and_stay_in_the_version_before(worn, spark):
    worn.wear(spark)
    worn.delete(spark, range(50))
    before = loaded(worn.name).current_snapshot().snapshot_id
    held = dict(worn.rows)
    lines = letting_go(worn, spark, old_since(THIRD, 10))
    worn.rows = {number: row for number, row in held.items() if row[0] == THIRD}
    worn.holds_its_rows()
    assert "750 rows from before 2026-01-03 gone" in lines[-1]
    assert rows_from(loaded(worn.name)) == THIRD
    assert list(loaded(worn.name).metadata.refs) == ["main"], "its branch is gone"
    (row,) = [row for row in log.recent(worn.name, 5) if row["operation"] == "delete_old_rows"]
    assert (row["outcome"], row["detail"]["rows"], row["detail"]["files"]) == ("done", 750, 8)
    assert row["bytes_read"] == row["bytes_written"] == 0
    worn.rows = held
    worn.holds_its_rows(at=str(before))
    assert letting_go(worn, spark, old_since(THIRD, 10)) == [], "there is nothing more that is old"


def test_rows_that_come_for_a_day_that_went_go_with_the_next_turn(worn, spark):
    worn.wear(spark, files=1)
    letting_go(worn, spark, old_since(THIRD, 10))
    worn.rows = {number: row for number, row in worn.rows.items() if row[0] == THIRD}
    worn.write(spark, FIRST, range(90_000, 90_010))
    assert "10 rows from before 2026-01-03 gone" in letting_go(worn, spark, old_since(THIRD, 10))[-1]
    worn.rows = {number: row for number, row in worn.rows.items() if row[0] == THIRD}
    worn.holds_its_rows()


def test_a_condition_that_takes_more_than_old_rows_changes_nothing(worn, spark, monkeypatch):
    worn.wear(spark, files=1)
    monkeypatch.setattr(lifetimes, "_literal", lambda *_: "TIMESTAMP '2026-01-03 18:00:00'")
    with pytest.raises(lifetimes.NotOnlyOldRows, match="1 files with rows of 2026-01-03 or later would go"):
        letting_go(worn, spark, old_since(THIRD, 10))
    worn.holds_its_rows()
    assert rows_from(loaded(worn.name)) is None
    assert list(loaded(worn.name).metadata.refs) == ["main"]


def test_a_file_that_is_written_again_in_part_is_noticed(worn, spark, monkeypatch):
    worn.wear(spark, files=1)
    monkeypatch.setattr(lifetimes, "_literal", lambda *_: "TIMESTAMP '2026-01-03' AND id < 10050")
    with pytest.raises(lifetimes.NotOnlyOldRows, match="files would come where old ones should only go"):
        letting_go(worn, spark, old_since(THIRD, 10))
    worn.holds_its_rows()


def test_what_somebody_commits_meanwhile_is_not_lost(worn, spark):
    worn.wear(spark, files=1)
    run = in_session(spark)

    def interrupted(job: Any) -> None:
        run(job)
        worn.write(spark, THIRD, range(90_000, 90_010))

    contract = worn.contract(retention={"rows": "10d"})
    with pytest.raises(LakehouseError):
        keep(contract, interrupted, "delete_old_rows", now=old_since(THIRD, 10))
    worn.holds_its_rows()
    letting_go(worn, spark, old_since(THIRD, 10))
    worn.rows = {number: row for number, row in worn.rows.items() if row[0] == THIRD}
    worn.holds_its_rows()


def test_a_version_that_let_rows_go_can_be_undone_until_the_one_before_expires(worn, spark):
    worn.wear(spark, files=1)
    before = loaded(worn.name).current_snapshot().snapshot_id
    letting_go(worn, spark, old_since(THIRD, 10))
    spark.sql(f"CALL lake.system.set_current_snapshot('{worn.name}', {before})")
    worn.holds_its_rows()


# --- A dataset and those who read it ---


@pytest.fixture
def notes(stack, tmp_path, monkeypatch) -> Iterator[Source]:
    """Bronze, silver and gold of a test's own; they are all the contracts that there are."""
    opened = Source(tmp_path, "json_lines", COLUMNS, CHANGES)
    name = f"foreign_{opened.shop.suffix}"
    (tmp_path / "gold").mkdir()
    (tmp_path / "gold" / f"{name}.yaml").write_text(GOLD.format(name=name))
    (tmp_path / "gold" / f"{name}.sql").write_text(SQL.format(name=name))
    with (tmp_path / "layers.yaml").open("a") as layers:
        layers.write("gold: {sla: {ready_within: 1h}, retention: {snapshots: 7d}, maintenance: {tier: daily}}\n")
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path))
    settings.cache_clear()
    yield opened
    monkeypatch.undo()
    settings.cache_clear()
    catalog().purge_table(gold_of(opened)) if catalog().table_exists(gold_of(opened)) else None
    opened.shop.close()
    shutil.rmtree(tmp_path)


def gold_of(notes: Source) -> str:
    return notes.shop.silver.replace("silver.", "gold.")


def note(key: int, day: date, name: str = "a") -> dict[str, Any]:
    return {"id": key, "name": name, "at": f"{day}T10:00:00Z"}


def build(notes: Source, spark: Any, day: date) -> Any:
    return notes.shop.run(gold_of(notes), day, in_session(spark))


def keeps(notes: Source, layer: str, more: str) -> None:
    (file,) = (notes.shop.folder / layer).glob("*.yaml")
    file.write_text(file.read_text() + more + "\n")


def lets_go(notes: Source, dataset: str, spark: Any, now: datetime) -> list[str]:
    return keep(notes.shop.contract(dataset), in_session(spark), "delete_old_rows", now=now)


def days_in(notes: Source) -> list[tuple[Any, ...]]:
    return run_sql(f"SELECT day, names FROM {gold_of(notes)} ORDER BY 1")[1]


def three_days(notes: Source, spark: Any) -> None:
    for number, day in enumerate(DAYS):
        notes.run(spark, {f"{number}.json": lines(note(number * 10, day), note(number * 10 + 1, day))}, day)
        build(notes, spark, day)


def test_rows_of_bronze_wait_for_silver_and_rows_of_silver_for_gold(notes, spark):
    keeps(notes, "bronze", "retention: {rows: 10d}")
    keeps(notes, "silver", "retention: {rows: 10d}")
    notes.shop.land(FIRST, {"a.json": lines(note(1, FIRST))})
    notes.shop.run(notes.shop.bronze, FIRST, in_session(spark))
    now = old_since(THIRD, 10)
    (held,) = planned(notes.shop.contract(notes.shop.bronze), now).put_off
    assert held.endswith(f"and stay as {notes.shop.silver} has yet to take 2026-01-01")
    notes.shop.run(notes.shop.silver, FIRST, in_session(spark))
    contract = notes.shop.contract(notes.shop.silver)
    own = [plan for one, plan in acts_plans(contract, now) if one.name == notes.shop.silver]
    assert [line for plan in own for line in plan.put_off if "has yet to be built" in line]
    build(notes, spark, FIRST)
    assert "1 rows" in lets_go(notes, notes.shop.bronze, spark, now)[0]
    assert "1 rows" in lets_go(notes, notes.shop.silver, spark, now)[-1]


def acts_plans(contract: Any, now: datetime) -> list[Any]:
    from lakehouse.maintenance.seen import plans

    return list(plans(contract, now))


def test_a_plan_from_before_a_correction_came_lets_nothing_go(notes, spark):
    three_days(notes, spark)
    keeps(notes, "bronze", "retention: {rows: 10d}")
    contract, now = notes.shop.contract(notes.shop.bronze), old_since(THIRD, 10)
    steps = [step for step in planned(contract, now).steps if step.operation == "delete_old_rows"]
    assert len(steps) == 1
    notes.shop.land(FIRST, {"0.json": lines(note(0, FIRST, "corrected"), note(1, FIRST))})
    notes.shop.run(notes.shop.bronze, FIRST, in_session(spark))
    with pytest.raises(LakehouseError, match=r"rows from before 2026-01-03 stay: .* has yet to take 2026-01-01"):
        list(carry_out(contract, steps, Attempt("test/late", 1), in_session(spark), clock=lambda: now))
    notes.shop.run(notes.shop.silver, FIRST, in_session(spark))
    assert notes.rows("id, name")[0] == (0, "corrected")


def test_gold_keeps_days_whose_rows_silver_has_let_go(notes, spark):
    three_days(notes, spark)
    keeps(notes, "silver", "retention: {rows: 10d}")
    lets_go(notes, notes.shop.silver, spark, old_since(THIRD, 10))
    assert notes.rows("id") == [(20,), (21,)]
    whole = [(FIRST, 2), (SECOND, 2), (THIRD, 2)]
    assert build(notes, spark, THIRD) is None or days_in(notes) == whole
    fourth = THIRD + timedelta(1)
    notes.run(spark, {"3.json": lines(note(30, fourth), note(20, THIRD, "changed"), note(40, THIRD))}, fourth)
    build(notes, spark, fourth)
    assert days_in(notes) == [(FIRST, 2), (SECOND, 2), (THIRD, 3), (fourth, 1)]
    # Built anew, as after another contract: the days that can be, and no other.
    (file,) = (notes.shop.folder / "gold").glob("*.sql")
    file.write_text(file.read_text().replace("COUNT(*)", "10 * COUNT(*)"))
    build(notes, spark, fourth)
    assert days_in(notes) == [(FIRST, 2), (SECOND, 2), (THIRD, 30), (fourth, 10)]


def test_an_interval_whose_records_went_stays_as_it_is_in_silver(notes, spark):
    three_days(notes, spark)
    keeps(notes, "bronze", "retention: {rows: 10d}")
    lets_go(notes, notes.shop.bronze, spark, old_since(THIRD, 10))
    assert run_sql(f"SELECT count(*) FROM {notes.shop.bronze}")[1] == [(2,)]
    silver = notes.rows("id, name")
    assert len(silver) == 6
    (file,) = (notes.shop.folder / "silver").glob("*.yaml")
    file.write_text(file.read_text().replace("from: name}", "from: name, clean: trim}"))
    for day in (FIRST, SECOND):
        assert notes.shop.run(notes.shop.silver, day, in_session(spark)) is None
    assert notes.rows("id, name") == silver
    notes.shop.land(FIRST, {"0.json": lines(note(0, FIRST, "late"))})
    with pytest.raises(LakehouseError, match="let its rows from before 2026-01-03 go, and landing has 1 files"):
        notes.shop.run(notes.shop.bronze, FIRST, in_session(spark))


def test_a_correction_that_would_need_records_that_went_is_refused(notes, spark):
    notes.run(spark, {"a.json": lines(note(1, FIRST, "old"), note(2, FIRST, "old"))}, FIRST)
    notes.run(spark, {"b.json": lines(note(1, THIRD, "new"), note(3, THIRD, "new"))}, THIRD)
    build(notes, spark, FIRST)
    keeps(notes, "bronze", "retention: {rows: 10d}")
    lets_go(notes, notes.shop.bronze, spark, old_since(THIRD, 10))
    held = notes.rows("id, name")
    assert held == [(1, "new"), (2, "old"), (3, "new")]
    with pytest.raises(LakehouseError, match=r"1 keys are not in the corrected file any more, .*: 1; deliver"):
        notes.run(spark, {"b.json": lines(note(3, THIRD, "newer"))}, THIRD)
    assert notes.rows("id, name") == held
    notes.run(spark, {"b.json": lines(note(3, THIRD, "newer"), note(1, THIRD, "again"))}, THIRD)
    assert notes.rows("id, name") == [(1, "again"), (2, "old"), (3, "newer")]


def test_what_could_not_be_built_again_is_not_rolled_back(notes, spark):
    three_days(notes, spark)
    first = loaded(notes.shop.silver).history()[0].snapshot_id
    keeps(notes, "bronze", "retention: {rows: 10d}")
    lets_go(notes, notes.shop.bronze, spark, old_since(THIRD, 10))
    with pytest.raises(rollbacks.CannotRollBack, match="2026-01-02 would be undone and could not be built again"):
        rollbacks.plan(notes.shop.contract(notes.shop.silver), str(first))


def test_rows_stay_while_a_contract_cannot_be_read(notes, spark):
    three_days(notes, spark)
    keeps(notes, "bronze", "retention: {rows: 10d}")
    contract = notes.shop.contract(notes.shop.bronze)
    keeps(notes, "gold", "colums: {}")
    (held,) = planned(contract, old_since(THIRD, 10)).put_off
    assert "a contract has a mistake, and may be one that reads" in held
    assert planned(contract, old_since(THIRD, 10)).steps == () or "delete_old_rows" not in {
        step.operation for step in planned(contract, old_since(THIRD, 10)).steps
    }


def test_bytes_that_come_again_after_their_rows_went_are_news(notes, spark):
    same = lines(note(1, FIRST))
    notes.run(spark, {"a.json": same}, FIRST)
    build(notes, spark, FIRST)
    keeps(notes, "bronze", "retention: {rows: 10d}")
    lets_go(notes, notes.shop.bronze, spark, old_since(THIRD, 10))
    notes.run(spark, {"b.json": same}, THIRD)
    assert run_sql(f"SELECT count(*) FROM {table_sql(notes.shop.bronze).replace('lake.', '', 1)}")[1] == [(1,)]
