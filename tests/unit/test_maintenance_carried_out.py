"""Carrying a plan out: what is done around each step, when it stops, and what the ledger is told."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse import naming, retention
from lakehouse.contracts import contract
from lakehouse.contracts.keeping import Retention
from lakehouse.errors import LakehouseError
from lakehouse.jobs import Call, Maintained
from lakehouse.ledger import leases
from lakehouse.maintenance import acts, carried_out, orphans
from lakehouse.maintenance.expiry import expirable
from lakehouse.maintenance.narrowed import narrowed
from lakehouse.maintenance.proof import RowsChanged
from lakehouse.maintenance.reachable import FilesMissing
from lakehouse.maintenance.step import Step
from lakehouse.plan import Attempt
from tests.unit.iceberg_tables import append, catalog, file, replace, versions

DAY = timedelta(days=1)
ORDERS = contract("silver.orders")
ATTEMPT = Attempt("a run", 1)


def step(operation: Any, **call: Any) -> Step:
    asked = Call(procedure=operation, **call)
    return Step(table="silver.orders", operation=operation, reason="a test", does="", call=asked)


def a_while_later() -> datetime:
    return datetime.now(UTC) + 30 * DAY


class Taking:
    """A step on a table in files: what is asked of Spark, what is kept in the ledger, and when the lease is held."""

    def __init__(self, monkeypatch, found) -> None:
        self.asked: list[Step] = []
        self.outcomes: list[str] = []
        self.kept: dict[str, Any] = {}
        self.answers: list[Maintained] = []
        self.rows = 0
        self.held = False
        self.measured_under_lease: list[str] = []
        self.wrong: Exception | None = None
        self.missing: Exception | None = None
        measure = carried_out.health
        for name, instead in {
            "_table": lambda _: found,
            "_keep": lambda *_: None,
            "_tidy": lambda *_: [],
            "act": self.act,
            "check_files": self.check_files,
            "health": lambda *given: self.noted("health") or measure(*given),
        }.items():
            monkeypatch.setattr(carried_out, name, instead)
        monkeypatch.setattr(carried_out.log, "begin", self.begin)
        monkeypatch.setattr(carried_out.log, "close", self.close)
        monkeypatch.setattr(carried_out.measures, "record", lambda *_: None)
        monkeypatch.setattr(leases, "acquire", lambda *_, **__: setattr(self, "held", True) or True)
        monkeypatch.setattr(leases, "release", lambda *_: setattr(self, "held", False))
        monkeypatch.setattr(leases, "renew", lambda *_: True)

    def take(self, one: Step, now: datetime) -> None:
        carried_out._take(ORDERS, one, acts.Tools("silver.orders", ATTEMPT, print, 0), lambda: now)

    def carry(self, steps: list[Step], now: datetime, contract: Any = ORDERS, **how: Any) -> list[str]:
        return list(carried_out.carry_out(contract, steps, ATTEMPT, print, **{"clock": lambda: now, **how}))

    def take_lease(self) -> bool:
        self.held = True
        return True

    def begin(self, *_: object) -> int:
        self.rows += 1
        return self.rows

    def close(self, _row: int, outcome: str, *_: object, **kept: Any) -> None:
        self.outcomes.append(outcome)
        self.kept = kept

    def act(self, _contract: object, one: Step, *_: object) -> Maintained:
        assert self.held, "a step is taken under the lease"
        self.asked.append(one)
        if self.wrong:
            raise self.wrong
        return self.answers.pop(0) if self.answers else Maintained(counters={})

    def check_files(self, *_: object) -> int:
        self.noted("files")
        if self.missing:
            raise self.missing
        return 0

    def noted(self, what: str) -> None:
        if self.held:
            self.measured_under_lease.append(what)


def test_a_step_is_narrowed_when_it_is_taken(table, monkeypatch):
    found, now = Taking(monkeypatch, table), datetime.now(UTC) + 30 * DAY
    old = step("expire_snapshots", older_than=now, retain_last=1)
    found.take(old, now)
    assert found.asked == [narrowed(old, ORDERS, table.metadata, now)] != [old]


def test_nothing_is_measured_or_proven_while_a_writer_would_wait(table, monkeypatch):
    found = Taking(monkeypatch, table)
    found.take(step("rewrite_manifests"), a_while_later())
    assert found.outcomes == ["done"]
    assert found.measured_under_lease == []


def test_a_table_that_was_written_since_it_was_measured_is_measured_again_under_the_lease(table, monkeypatch):
    found = Taking(monkeypatch, table)
    monkeypatch.setattr(
        leases, "acquire", lambda *_, **__: append(table, [file("more", 1)]) or found.__setattr__("held", 1) or True
    )
    found.take(step("rewrite_manifests"), a_while_later())
    assert found.measured_under_lease == ["health"]


@pytest.mark.parametrize("missing", [None, FilesMissing("a file is gone")])
def test_a_step_that_failed_is_looked_at_for_files_that_it_took_along(table, monkeypatch, missing):
    found = Taking(monkeypatch, table)
    found.wrong, found.missing = ValueError("Spark is gone"), missing
    with pytest.raises(type(missing or found.wrong)):
        found.take(step("rewrite_manifests"), a_while_later())
    assert found.outcomes == [f"failed: {missing or found.wrong}"]


def test_between_two_steps_the_lease_is_free_for_the_pause(table, monkeypatch):
    found, pauses = Taking(monkeypatch, table), []
    monkeypatch.setattr(carried_out.time, "sleep", lambda seconds: pauses.append((seconds, found.held)))
    found.carry([step("rewrite_manifests")] * 3, a_while_later(), pause=7.5)
    assert len(found.asked) == 3
    assert pauses == [(7.5, False), (7.5, False)], "not before the first step, nor after the last"


@pytest.mark.parametrize("tagged", [True, False])
def test_what_somebody_was_made_from_since_the_plan_is_kept_before_any_version_expires(
    table, tmp_path, monkeypatch, tagged
):
    """A version of gold is published while nobody holds the lease; it says from which version it was made."""
    keep, found, now = carried_out._keep, Taking(monkeypatch, table), datetime.now(UTC) + DAY
    known, there = catalog(tmp_path), []
    known.create_namespace("gold")
    made_from = {naming.BATCH: "gold-1", naming.INPUTS: json.dumps({"silver.orders": versions(table)[0]})}
    append(known.create_table("gold.daily_sales", table.schema()), [file("gold", 5, day=None)], **made_from)
    monkeypatch.setattr(retention, "catalog", lambda: known)
    monkeypatch.setattr(retention, "table", lambda name: known.load_table(name) if known.table_exists(name) else None)
    monkeypatch.setattr(carried_out, "settle", lambda _: None)
    monkeypatch.setattr(carried_out, "act", lambda *given: there.extend(table.refresh().refs()) or found.act(*given))
    if tagged:
        monkeypatch.setattr(carried_out, "_keep", keep)
    found.carry([step("expire_snapshots", older_than=now, retain_last=1)], now)
    assert found.outcomes == ["done"]
    assert any(name.startswith(naming.INPUT_TAG) for name in there) is tagged


def test_a_step_that_changes_the_number_of_rows_fails(table, monkeypatch):
    found, keeps = Taking(monkeypatch, table), {"total-records": "60"}
    act = found.act
    for summary, told in ((keeps, "done"), ({"total-records": "59"}, "failed: silver.orders had 60 rows before")):
        monkeypatch.setattr(carried_out, "act", lambda *given, made=summary: replace(table, **made) or act(*given))
        with nullcontext() if told == "done" else pytest.raises(RowsChanged):
            found.carry([step("rewrite_manifests")], a_while_later())
        assert found.outcomes[-1].startswith(told)


@pytest.mark.parametrize(("regulated", "expire"), [(True, 0), (False, 5)])
def test_versions_of_a_regulated_dataset_stay_whatever_an_old_plan_says(table, monkeypatch, regulated, expire):
    kept_for = Retention.model_validate({"snapshots": "7d", "keep_last": 1, "regulated": regulated})
    found, now = Taking(monkeypatch, table), datetime.now(UTC) + 8 * DAY
    old = step("expire_snapshots", older_than=now - 7 * DAY, retain_last=1)
    found.carry([old], now, ORDERS.model_copy(update={"retention": kept_for}))
    (asked,) = [one.call for one in found.asked]
    assert expirable(table.metadata, asked.older_than, asked.retain_last, now) == expire


def test_no_step_begins_after_the_window_has_closed(table, monkeypatch):
    found, evening = Taking(monkeypatch, table), datetime(2026, 6, 1, 5, 59, tzinfo=UTC)
    steps = [step("rewrite_manifests")] * 3
    with pytest.raises(carried_out.WindowClosed, match="it is not 22:00-06:00 UTC any more; 2 steps are left") as over:
        found.carry(steps, evening, window="22:00-06:00", clock=lambda: evening + len(found.asked) * DAY / 24)
    assert (len(found.asked), over.value.taken) == (1, 1)
    found.carry(steps, evening + DAY / 24)
    assert len(found.asked) == 4, "without a window it goes on"


def test_a_healthy_table_that_is_being_written_has_had_its_turn(table, monkeypatch):
    Taking(monkeypatch, table)
    monkeypatch.setattr(leases, "holder", lambda _: None)
    monkeypatch.setattr(leases, "acquire", lambda *_, **__: False)
    (line,) = carried_out.carry_out(ORDERS, [], ATTEMPT, print)
    assert line.endswith("another time: silver.orders is being written by another run")
    with pytest.raises(carried_out.Busy) as busy:
        list(carried_out.carry_out(ORDERS, [step("rewrite_manifests")], ATTEMPT, print))
    assert busy.value.taken == 0


def test_what_was_put_off_goes_on_with_the_step_that_was_next(table, monkeypatch):
    found = Taking(monkeypatch, table)
    monkeypatch.setattr(leases, "holder", lambda _: None)
    free, steps = [True] * 2, [step("rewrite_manifests"), step("expire_snapshots"), step("rewrite_data_files")]
    monkeypatch.setattr(leases, "acquire", lambda *_, **__: bool(free) and free.pop() and found.take_lease())
    with pytest.raises(carried_out.Busy) as busy:
        found.carry(steps, a_while_later())
    assert [one.operation for one in found.asked] == ["rewrite_manifests"]
    free += [True] * 3
    found.carry(steps, a_while_later(), start=busy.value.taken)
    assert [one.operation for one in found.asked] == ["rewrite_manifests", "expire_snapshots", "rewrite_data_files"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (orphans.NoOrphans("its folder is shared"), "refused: its folder is shared"),
        (ValueError("Spark is gone"), "failed to look: Spark is gone"),
        (None, "put off: silver.orders is being written by another run"),
    ],
)
def test_a_look_for_orphans_that_comes_to_nothing_is_a_row_too(table, monkeypatch, error, told):
    """The lease is free while Spark lists the folder; a writer may have it afterwards."""
    found, held = Taking(monkeypatch, table), []
    monkeypatch.setattr(leases, "holder", lambda _: None)

    def look(*_: object) -> Step:
        held.append(found.held)
        if error:
            raise error
        monkeypatch.setattr(leases, "acquire", lambda *_, **__: False)
        return sweep

    sweep = step("remove_orphan_files", older_than=datetime.now(UTC))
    monkeypatch.setattr(carried_out, "look_for_orphans", look)
    with pytest.raises(type(error) if error else carried_out.Busy):
        found.carry([sweep], a_while_later())
    assert (held, found.asked, found.rows, found.outcomes) == ([False], [], 1, [told])


UNWRITTEN = "3 files could not be rewritten; Spark's log says why"


def failed_in(files: int) -> Maintained:
    """What Iceberg answers where a group of files fails: it throws nothing."""
    return Maintained(counters={"rewritten_data_files_count": 9, "failed_data_files_count": files})


def test_files_that_could_not_be_rewritten_fail_the_turn_once_all_steps_have_had_theirs(table, monkeypatch):
    found, lines = Taking(monkeypatch, table), []
    found.answers, steps = [failed_in(3), failed_in(0)], [step("rewrite_data_files")] * 2
    with pytest.raises(LakehouseError, match=f"^silver.orders: {UNWRITTEN}$"):
        lines.extend(carried_out.carry_out(ORDERS, steps, ATTEMPT, print, clock=a_while_later))
    assert [UNWRITTEN in line for line in lines] == [True, False]
    assert found.outcomes == [f"failed: {UNWRITTEN}", "done"]
    assert found.kept["files_checked"] == 0, "it is proven as any other"


def test_files_that_could_not_be_rewritten_are_not_forgotten_while_somebody_writes(table, monkeypatch):
    found, free = Taking(monkeypatch, table), [True] * 2
    monkeypatch.setattr(leases, "holder", lambda _: None)
    monkeypatch.setattr(leases, "acquire", lambda *_, **__: bool(free) and free.pop() and found.take_lease())
    found.answers, steps = [failed_in(3)], [step("rewrite_data_files"), step("rewrite_manifests")]
    with pytest.raises(carried_out.Busy) as busy:
        found.carry(steps, a_while_later())
    assert (busy.value.taken, busy.value.unwritten) == (1, 3)
    free += [True] * 2
    with pytest.raises(LakehouseError, match=UNWRITTEN):
        found.carry(steps, a_while_later(), start=1, unwritten=3)
    assert found.outcomes == [f"failed: {UNWRITTEN}", "done"]


def test_files_that_the_store_kept_are_not_told_as_removed(table, monkeypatch):
    """Iceberg names every file that it tried to remove; what is gone shows in a fresh list."""
    found, names = Taking(monkeypatch, table), ("s3://lake/silver/orders/gone", "s3://lake/silver/orders/kept")
    found.answers = [Maintained(counters={"files": 2}, files=names)]
    monkeypatch.setattr(carried_out, "look_for_orphans", lambda _found, one, _tools: one)
    monkeypatch.setattr(orphans, "listed", lambda _: found.noted("list") or names[1:])
    (line,) = found.carry([step("remove_orphan_files", older_than=datetime.now(UTC))], a_while_later())
    assert ": 1 files removed, 1 failed and stay: Spark's log says why, " in line
    told = {name: found.kept["detail"][name] for name in ("files", "failed", "failure")}
    assert told == {"files": [names[0]], "failed": 1, "failure": "Spark's log says why"}
    assert (found.outcomes, found.measured_under_lease) == (["done"], [])
