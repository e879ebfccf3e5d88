"""Carrying a plan out: what is done around each step, when it stops, and what the ledger is told."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime

import pytest

from lakehouse import naming, retention
from lakehouse.contracts.keeping import Retention
from lakehouse.jobs import Maintained
from lakehouse.ledger import leases
from lakehouse.maintenance import acts, carried_out, orphans
from lakehouse.maintenance.expiry import expirable
from lakehouse.maintenance.narrowed import narrowed
from lakehouse.maintenance.proof import RowsChanged
from tests.unit.iceberg_tables import append, catalog, file, replace, versions
from tests.unit.maintenance_taking import ATTEMPT, DAY, ORDERS, Taking, a_while_later, step


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


def test_what_was_written_since_the_table_was_measured_is_measured_once_the_lease_is_free(table, monkeypatch):
    found = Taking(monkeypatch, table)
    monkeypatch.setattr(
        leases, "acquire", lambda *_, **__: append(table, [file("more", 1)]) or found.__setattr__("held", 1) or True
    )
    found.take(step("rewrite_manifests"), a_while_later())
    assert found.measured_under_lease == []
    assert (found.kept["before"]["files"], found.kept["before"]["rows"]) == (7, 70), "it is what the step has found"


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


def test_many_orphans_go_in_parts_between_which_the_lease_is_free(table, monkeypatch):
    found, pauses, now = Taking(monkeypatch, table), [], datetime.now(UTC)
    names = [f"s3://lake/silver/orders/{number}" for number in range(5)]
    sweep = step("remove_orphan_files", older_than=now, files=tuple((name, now) for name in names))
    monkeypatch.setattr(acts, "_ORPHANS_AT_ONCE", 2)
    monkeypatch.setattr(carried_out, "look_for_orphans", lambda _found, one, _tools: one)
    monkeypatch.setattr(carried_out.time, "sleep", lambda seconds: pauses.append((seconds, found.held)))
    monkeypatch.setattr(orphans, "listed", lambda _: [])
    found.answers = [Maintained(counters={"files": 2}, files=tuple(names[n : n + 2])) for n in (0, 2, 4)]
    (line,) = found.carry([sweep], a_while_later(), pause=3)
    assert [[path for path, _ in one.call.files] for one in found.asked] == [names[:2], names[2:4], names[4:]]
    assert pauses == [(3, False)] * 2
    assert ": 5 files removed, " in line
    assert (found.rows, found.kept["detail"]["files"]) == (1, names)


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
