"""Rows of bronze past their time go, on the real stack: what goes, what stays, and what everybody else makes of it.

Days of January are old by the clock that these tests pass on; nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from lakehouse.batch import DISCARDED, INTENT
from lakehouse.catalog import rows_from
from lakehouse.errors import LakehouseError
from lakehouse.ledger import batches, leases
from lakehouse.ledger import maintenance as log
from lakehouse.ledger import rollbacks as ledger
from lakehouse.maintenance import old_rows
from lakehouse.maintenance.carried_out import carry_out
from lakehouse.maintenance.reachable import check
from lakehouse.maintenance.seen import plans
from lakehouse.maintenance.step import Plan
from lakehouse.naming import table_sql
from lakehouse.plan import Attempt
from lakehouse.plan import plan as plan_of_run
from lakehouse.provenance import is_maintenance
from lakehouse.query import run_sql
from lakehouse.rollback import planned as rollbacks
from lakehouse.settings import settings
from tests.stack.foreign import Source, lines
from tests.stack.shop import in_session, interval
from tests.stack.tables import loaded
from tests.stack.worn import DAYS

FIRST, SECOND, THIRD = DAYS
COLUMNS = """
  id:   {type: bigint, required: true, from: id}
  name: {type: string, required: true, from: name}
  at:   {type: timestamp, required: true, from: at}
"""
CHANGES = "delivers: changes\nkey: [id]\nnewest_by: [at]\npartition_by: [day(at)]\nchange_feed: true"
# On this day the first two days are past the ten that they are kept, and the third is not.
NOW = datetime(THIRD.year, THIRD.month, THIRD.day, 12, tzinfo=UTC) + timedelta(10)


def opened(folder: Any, monkeypatch: pytest.MonkeyPatch, how: str = CHANGES) -> Iterator[Source]:
    """Bronze and silver of a test's own; they are all the contracts that there are."""
    source = Source(folder, "json_lines", COLUMNS, how)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(folder))
    settings.cache_clear()
    yield source
    source.shop.close()
    monkeypatch.undo()
    settings.cache_clear()


@pytest.fixture
def notes(stack, tmp_path, monkeypatch) -> Iterator[Source]:
    yield from opened(tmp_path, monkeypatch)


@pytest.fixture
def events(stack, tmp_path, monkeypatch) -> Iterator[Source]:
    yield from opened(tmp_path, monkeypatch, "delivers: events")


def note(key: int, day: date, name: str = "a") -> dict[str, Any]:
    return {"id": key, "name": name, "at": f"{day}T10:00:00Z"}


def three_days(source: Source, spark: Any) -> None:
    for number, day in enumerate(DAYS):
        source.run(spark, {f"{number}.json": lines(note(number * 10, day), note(number * 10 + 1, day))}, day)


def said(source: Source, layer: str, more: str) -> None:
    """One line more in a contract."""
    (file,) = (source.shop.folder / layer).glob("*.yaml")
    file.write_text(file.read_text() + more + "\n")


def plan_of(source: Source) -> Plan:
    ((_, found),) = plans(source.shop.contract(source.shop.bronze), NOW)
    return found


def turn(source: Source, plan: Plan | None = None, attempt: Attempt | None = None) -> list[str]:
    """Let old rows go, as maintenance does; without Spark."""
    steps = [step for step in (plan or plan_of(source)).steps if step.operation == "delete_old_rows"]

    def no_spark(job: object) -> None:
        raise AssertionError(f"no job was needed, and one ran: {job}")

    contract, attempt = source.shop.contract(source.shop.bronze), attempt or Attempt(f"test/{datetime.now(UTC)}", 1)
    return list(carry_out(contract, steps, attempt, no_spark, clock=lambda: NOW))


def in_bronze(source: Source) -> list[tuple[Any, ...]]:
    return run_sql(
        f"SELECT CAST(_ingestion_date AS VARCHAR), count(*) FROM {source.shop.bronze} GROUP BY 1 ORDER BY 1"
    )[1]


ALL = [(str(day), 2) for day in DAYS]
LEFT = ALL[2:]


def test_days_go_from_main_and_stay_in_the_version_before(notes, spark):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    before = loaded(notes.shop.bronze).current_snapshot().snapshot_id
    assert "4 rows from before 2026-01-03 gone" in turn(notes)[-1]
    assert in_bronze(notes) == LEFT
    found = loaded(notes.shop.bronze)
    assert rows_from(found) == THIRD
    assert is_maintenance(found.current_snapshot()), "nobody takes it for somebody's change"
    assert [ref for ref in found.metadata.refs if ref.startswith("audit")] == []
    (row,) = [row for row in log.recent(notes.shop.bronze, 5) if row["operation"] == "delete_old_rows"]
    assert (row["outcome"], row["detail"]["rows"], row["detail"]["data_files"]) == ("done", 4, 2)
    assert row["bytes_read"] == row["bytes_written"] == 0
    assert run_sql(f"SELECT count(*) FROM {notes.shop.bronze}", at=str(before))[1] == [(6,)]
    assert spark.table(table_sql(notes.shop.bronze)).count() == 2, "Spark reads what PyIceberg wrote"
    assert check(notes.shop.bronze, found) > 0
    assert turn(notes) == [], "there is nothing more that is old"
    notes.run(spark, {"3.json": lines(note(30, THIRD), note(31, THIRD))}, THIRD + timedelta(1))
    assert in_bronze(notes) == [*LEFT, ("2026-01-04", 2)]


def test_silver_stays_as_it_is_whatever_is_asked_of_it(notes, spark):
    three_days(notes, spark)
    silver = notes.rows("id, name")
    said(notes, "bronze", "retention: {rows: 10d}")
    turn(notes)
    (file,) = (notes.shop.folder / "silver").glob("*.yaml")
    file.write_text(file.read_text().replace("from: name}", "from: name, clean: trim}"))
    state = notes.shop.state()
    for day in (FIRST, SECOND):
        assert notes.shop.run(notes.shop.bronze, day, in_session(spark)) is None
        assert notes.shop.run(notes.shop.silver, day, in_session(spark)) is None
    assert notes.shop.state() == state
    assert notes.rows("id, name") == silver


# --- What holds rows ---


def test_rows_wait_until_silver_has_taken_them(notes, spark):
    said(notes, "bronze", "retention: {rows: 10d}")
    notes.run(spark, {"0.json": lines(note(0, FIRST))}, FIRST)
    assert plan_of(notes).put_off[0].endswith(f"and stay as {notes.shop.bronze} has yet to take 2026-01-02")
    notes.shop.land(SECOND, {"1.json": lines(note(1, SECOND))})
    notes.shop.run(notes.shop.bronze, SECOND, in_session(spark))
    assert plan_of(notes).put_off[0].endswith(f"and stay as {notes.shop.silver} has yet to take 2026-01-02")
    notes.shop.run(notes.shop.silver, SECOND, in_session(spark))
    assert plan_of(notes).put_off == ()
    turn(notes)
    assert in_bronze(notes) == []


def test_rows_wait_until_silver_has_taken_their_correction_also_if_it_comes_after_the_plan(notes, spark):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    early = plan_of(notes)
    notes.shop.land(FIRST, {"0.json": lines(note(0, FIRST, "corrected"), note(1, FIRST))})
    notes.shop.run(notes.shop.bronze, FIRST, in_session(spark))
    assert "has yet to take 2026-01-01 as it is now" in turn(notes, early)[-1]
    assert in_bronze(notes)[0] == ("2026-01-01", 4)
    assert plan_of(notes).put_off[0].endswith("has yet to take 2026-01-01 as it is now")
    notes.shop.run(notes.shop.silver, FIRST, in_session(spark))
    turn(notes)
    assert in_bronze(notes) == LEFT
    assert notes.rows("id, name")[0] == (0, "corrected")


def test_rows_stay_while_a_contract_cannot_be_read(notes, spark):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    early = plan_of(notes)
    contract = notes.shop.contract(notes.shop.bronze)
    said(notes, "silver", "colums: {}")
    ((_, found),) = plans(contract, NOW)
    assert "a contract has a mistake, and may be one that reads" in found.put_off[0]
    steps = [step for step in early.steps if step.operation == "delete_old_rows"]
    list(carry_out(contract, steps, Attempt("test/unread", 1), in_session(spark), clock=lambda: NOW))
    assert in_bronze(notes) == ALL


@pytest.mark.parametrize("layer", ["bronze", "silver"])
def test_rows_stay_while_a_publish_is_not_confirmed(notes, spark, layer):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    newest = batches.recent(getattr(notes.shop, layer))[0]
    open_one = newest.model_copy(update={"batch_id": f"{newest.batch_id}-open", "state": INTENT})
    batches.intend(open_one)
    assert f"the publish of {open_one.batch_id} is not confirmed" in plan_of(notes).put_off[0]
    batches.settle(open_one.batch_id, DISCARDED)
    assert plan_of(notes).put_off == ()


def test_rows_stay_while_a_rollback_of_a_reader_is_cut_short(notes, spark):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    silver = notes.shop.contract(notes.shop.silver)
    second = loaded(notes.shop.silver).history()[1].snapshot_id
    number = ledger.intend(rollbacks.plan(silver, str(second)), "who", "why")
    assert f"a rollback of {notes.shop.silver} was cut short" in plan_of(notes).put_off[0]
    ledger.abandon(number)
    assert plan_of(notes).put_off == ()


@pytest.mark.parametrize("owner", [Attempt("test/another", 1), Attempt("test/same", 1)], ids=["a run", "the same run"])
def test_rows_stay_while_a_reader_is_at_work(notes, spark, owner):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    assert leases.acquire(notes.shop.silver, owner.run, owner.id)
    try:
        told = f"put off: {notes.shop.silver} is being written by {owner.run}"
        assert told in turn(notes, attempt=Attempt("test/same", 1))[-1]
        assert log.last_done(notes.shop.bronze) == {}
        assert leases.holder(notes.shop.silver).owner == owner.run, "and the reader's lease is not given back"
    finally:
        leases.release(notes.shop.silver, owner.run)
    assert in_bronze(notes) == ALL
    turn(notes)
    assert in_bronze(notes) == LEFT


def test_rows_stay_where_somebody_moved_main_of_silver_back(notes, spark):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    first, *_, newest = (one.snapshot_id for one in loaded(notes.shop.silver).history())
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{notes.shop.silver}', {first})")
    assert f"somebody moved main of {notes.shop.silver} back to before" in plan_of(notes).put_off[0]
    spark.sql(f"CALL lake.system.set_current_snapshot('{notes.shop.silver}', {newest})")
    assert plan_of(notes).put_off == ()


def test_what_was_taken_by_the_day_goes_also_where_intervals_are_hours_by_then(notes, spark):
    three_days(notes, spark)
    (file,) = (notes.shop.folder / "bronze").glob("*.yaml")
    file.write_text(file.read_text().replace("{interval:%Y-%m-%d}", "{interval:%Y-%m-%dT%H%M%z}"))
    for layer in ("bronze", "silver"):
        said(notes, layer, 'schedule: "@hourly"')
    said(notes, "bronze", "retention: {rows: 10d}")
    assert plan_of(notes).put_off == ()
    turn(notes)
    assert in_bronze(notes) == LEFT


def test_days_that_no_run_is_made_for_hold_no_rows(notes, spark, monkeypatch):
    said(notes, "bronze", "retention: {rows: 10d}")
    notes.run(spark, {"1.json": lines(note(1, SECOND))}, SECOND)
    assert plan_of(notes).put_off[0].endswith(f"and stay as {notes.shop.bronze} has yet to take 2026-01-01")
    monkeypatch.setenv("LAKEHOUSE_START", str(SECOND))
    settings.cache_clear()
    assert plan_of(notes).put_off == ()
    turn(notes)
    assert in_bronze(notes) == []


def meanwhile(monkeypatch: pytest.MonkeyPatch, what: Callable[[], None]) -> None:
    """Something happens when the old files were chosen, and are compared with main."""
    real = old_rows._compared
    monkeypatch.setattr(old_rows, "_compared", lambda *given: (what(), real(*given))[1])


def test_what_somebody_commits_meanwhile_is_not_lost(notes, spark, monkeypatch):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    own = table_sql(notes.shop.bronze)
    # Somebody who knows of no lease writes rows of an old day.
    meanwhile(
        monkeypatch, lambda: spark.sql(f"INSERT INTO {own} SELECT * FROM {own} WHERE _ingestion_date = '{FIRST}'")
    )
    assert "put off: " in turn(notes)[-1]
    assert in_bronze(notes) == [("2026-01-01", 8), *ALL[1:]], "it was tried twice"
    assert rows_from(loaded(notes.shop.bronze)) is None


def test_files_that_are_not_old_never_go_along(notes, spark, monkeypatch):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    every = [task.file for task in loaded(notes.shop.bronze).scan().plan_files()]
    monkeypatch.setattr(old_rows, "_old_files", lambda *_: every)
    with pytest.raises(old_rows.NotOnlyOldRows, match="1 files with rows of 2026-01-03 or later would go"):
        turn(notes)
    assert in_bronze(notes) == ALL
    assert rows_from(loaded(notes.shop.bronze)) is None


# --- What comes later ---


def test_a_file_for_a_day_that_went_is_refused(notes, spark):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    turn(notes)
    notes.shop.land(FIRST, {"0.json": lines(note(0, FIRST, "late"))})
    with pytest.raises(LakehouseError, match="let its rows from before 2026-01-03 go, and landing has 1 files"):
        notes.shop.run(notes.shop.bronze, FIRST, in_session(spark))


GOLD = """
dataset: gold.{name}
description: How many there are.
owner: team
start: 2026-01-01
reads: {reads}
columns: {{records: {{type: bigint}}}}
sla: {{ready_within: 1h}}
retention: {{snapshots: 7d}}
maintenance: {{tier: daily}}
"""


def test_gold_is_not_built_of_what_is_left_though_bronze_keeps_its_rows_by_then(notes, spark):
    three_days(notes, spark)
    said(notes, "bronze", "retention: {rows: 10d}")
    turn(notes)
    (file,) = (notes.shop.folder / "bronze").glob("*.yaml")
    file.write_text(file.read_text().replace("retention: {rows: 10d}\n", ""))
    (notes.shop.folder / "gold").mkdir()
    name = f"left_{notes.shop.suffix}"
    (notes.shop.folder / f"gold/{name}.yaml").write_text(GOLD.format(name=name, reads=notes.shop.bronze))
    view = notes.shop.bronze.replace(".", "_")
    (notes.shop.folder / f"gold/{name}.sql").write_text(f"SELECT count(*) AS records FROM {view}")
    with pytest.raises(LakehouseError, match=f"{notes.shop.bronze} has let its rows from before 2026-01-03 go; read"):
        plan_of_run(notes.shop.contract(f"gold.{name}"), interval(THIRD), Attempt("test/gold", 1))


def test_a_correction_that_would_need_records_that_went_is_refused(notes, spark):
    """Of key 1 the file that is left brought the newest version; without it, an older one may be right."""
    notes.run(spark, {"a.json": lines(note(1, FIRST, "old"), note(2, FIRST, "old"))}, FIRST)
    notes.run(spark, {"e.json": lines(note(9, SECOND))}, SECOND)
    notes.run(spark, {"b.json": lines(note(1, THIRD, "new"), note(3, THIRD, "new"))}, THIRD)
    said(notes, "bronze", "retention: {rows: 10d}")
    turn(notes)
    held = notes.rows("id, name")
    with pytest.raises(LakehouseError, match=r"of 1 keys the newest version may be among .*: 1; deliver"):
        notes.run(spark, {"b.json": lines(note(3, THIRD, "newer"))}, THIRD)
    assert notes.rows("id, name") == held == [(1, "new"), (2, "old"), (3, "new"), (9, "a")]
    said(notes, "silver", "unknown_history: delete")
    notes.shop.run(notes.shop.silver, THIRD, in_session(spark))
    assert notes.rows("id, name") == [(2, "old"), (3, "newer"), (9, "a")]


def test_an_older_record_that_is_left_is_not_taken_for_the_newest(notes, spark):
    """Of key 1 came, in this order of time: what is left in c.json, what went with a.json, what b.json corrects."""
    notes.run(spark, {"a.json": lines(note(1, SECOND, "went"))}, FIRST)
    notes.run(spark, {"e.json": lines(note(9, SECOND))}, SECOND)
    notes.run(
        spark, {"b.json": lines(note(1, THIRD, "newest"), note(3, THIRD)), "c.json": lines(note(1, FIRST))}, THIRD
    )
    said(notes, "bronze", "retention: {rows: 10d}")
    turn(notes)
    with pytest.raises(LakehouseError, match="of 1 keys the newest version may be among"):
        notes.run(spark, {"b.json": lines(note(3, THIRD))}, THIRD)
    assert notes.rows("id, name") == [(1, "newest"), (3, "a"), (9, "a")]
    said(notes, "silver", "unknown_history: delete")
    notes.shop.run(notes.shop.silver, THIRD, in_session(spark))
    assert notes.rows("id, name") == [(3, "a"), (9, "a")]


def test_a_repeat_of_what_went_holds_nothing_up(notes, spark):
    """Each further repeat is one more name of bytes that were corrected in an interval that went."""
    notes.run(spark, {"0.json": lines(note(0, FIRST)), "1.json": lines(note(1, FIRST))}, FIRST)
    notes.run(spark, {"2.json": lines(note(0, FIRST))}, SECOND)
    notes.run(spark, {"0.json": lines(note(0, FIRST, "corrected"))}, FIRST)
    notes.shop.run(notes.shop.silver, SECOND, in_session(spark))
    said(notes, "bronze", "retention: {rows: 10d}")
    turn(notes)
    assert rows_from(loaded(notes.shop.bronze)) == THIRD
    notes.run(spark, {"3.json": lines(note(0, FIRST)), "4.json": lines(note(4, THIRD))}, THIRD)
    assert notes.shop.run(notes.shop.silver, FIRST, in_session(spark)) is None
    assert [row[0] for row in notes.rows("id")] == [0, 1, 4]


def test_bytes_that_come_again_after_their_rows_went_are_still_a_repeat(events, spark):
    same = lines(note(1, FIRST))
    events.run(spark, {"a.json": same}, FIRST)
    events.run(spark, {"e.json": lines(note(9, SECOND))}, SECOND)
    said(events, "bronze", "retention: {rows: 10d}")
    turn(events)
    assert in_bronze(events) == []
    events.run(spark, {"b.json": same, "c.json": lines(note(2, THIRD))}, THIRD)
    assert events.rows("id") == [(1,), (2,), (9,)], "each event once"
    # To correct the repeat would be to correct what went.
    events.shop.land(THIRD, {"b.json": lines(note(1, FIRST, "other"))})
    with pytest.raises(LakehouseError, match=r"b.json corrects bytes that came before 2026-01-03"):
        events.shop.run(events.shop.bronze, THIRD, in_session(spark))
    assert events.rows("id") == [(1,), (2,), (9,)]


def test_what_could_not_be_built_again_is_not_rolled_back(notes, spark):
    three_days(notes, spark)
    first = {name: loaded(name).history()[0].snapshot_id for name in (notes.shop.bronze, notes.shop.silver)}
    said(notes, "bronze", "retention: {rows: 10d}")
    turn(notes)
    for name, snapshot in first.items():
        with pytest.raises(rollbacks.CannotRollBack, match="2026-01-02 would be undone and could not be built again"):
            rollbacks.plan(notes.shop.contract(name), str(snapshot))
