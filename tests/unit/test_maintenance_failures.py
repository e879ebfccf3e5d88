"""Steps that fail, or have to wait: what is looked at then, which others have their turn, and what is told of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.jobs import Maintained
from lakehouse.ledger import leases
from lakehouse.maintenance import acts, carried_out, orphans, proof, taken
from lakehouse.maintenance.proof import RowsChanged, check_rows
from lakehouse.maintenance.reachable import FilesMissing
from lakehouse.maintenance.step import Step
from tests.unit.iceberg_tables import replace, versions
from tests.unit.maintenance_taking import ATTEMPT, ORDERS, Taking, a_while_later, step


@pytest.mark.parametrize("missing", [None, FilesMissing("a file is gone")])
@pytest.mark.parametrize("wrong", [ValueError("the catalog is gone"), acts.JobOfStepFailed("Spark is gone")])
def test_a_step_that_failed_is_looked_at_for_files_that_it_took_along(table, monkeypatch, missing, wrong):
    found = Taking(monkeypatch, table)
    found.wrong, found.missing = [wrong], missing
    with pytest.raises(LakehouseError if isinstance(wrong, LakehouseError) and not missing else type(missing or wrong)):
        found.carry([step("rewrite_manifests")], a_while_later())
    assert found.outcomes == [f"failed: {missing or wrong}"]


@pytest.mark.parametrize("wrong", [ValueError("the catalog is gone"), acts.JobOfStepFailed("Spark is gone")])
def test_a_step_that_failed_is_looked_at_for_rows_that_a_part_of_it_took_along(table, monkeypatch, wrong):
    """What it has committed until then is main."""
    found = Taking(monkeypatch, table)
    found.wrong = [wrong]
    act = found.act
    monkeypatch.setattr(carried_out, "act", lambda *given: replace(table, **{"total-records": "59"}) or act(*given))
    with pytest.raises(RowsChanged, match="had 60 rows before maintenance"):
        found.carry([step("rewrite_data_files"), step("rewrite_manifests")], a_while_later())
    assert [one.operation for one in found.asked] == ["rewrite_data_files"]
    assert found.outcomes[0].startswith("failed: silver.orders had 60 rows before")


def test_a_version_that_expires_while_a_step_fails_is_not_missed(table, monkeypatch):
    """Its parent cannot be compared with it any more, nor are its files looked for."""
    found, looks = Taking(monkeypatch, table), []
    replace(table)
    *_, parent, _ = versions(table)

    def gone(_name: str, left: Any) -> int:
        looks.append(left.snapshot_by_id(parent) is None)
        if len(looks) == 1:
            table.maintenance.expire_snapshots().by_id(parent).commit()
            raise FilesMissing("a list of files is gone")
        return 0

    monkeypatch.setattr(proof, "check_files", gone)
    found.wrong = [ValueError("the catalog is gone")]
    with pytest.raises(ValueError, match="the catalog is gone"):
        found.carry([step("rewrite_manifests")], a_while_later())
    assert looks == [False, True]
    check_rows("silver.orders", table.refresh(), since=None)


@pytest.mark.parametrize(
    ("error", "told", "others"),
    [
        (orphans.NoOrphans("its folder is shared"), "refused: its folder is shared", ["done"]),
        (orphans.PlacesUnknown("x.y is out of order"), "failed to look: x.y is out of order", ["done"]),
        (acts.JobOfStepFailed("Spark is gone"), "failed to look: Spark is gone", ["done"]),
        (ValueError("the ledger is gone"), "failed to look: the ledger is gone", []),
        (None, "put off: silver.orders is being written by another run", []),
    ],
)
def test_a_look_for_orphans_that_comes_to_nothing_is_a_row_too(table, monkeypatch, error, told, others):
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
    with pytest.raises(LakehouseError if others else type(error) if error else carried_out.Busy):
        found.carry([sweep, step("rewrite_manifests")], a_while_later())
    assert (held, len(found.asked), found.outcomes) == ([False], len(others), [told, *others])


FAILED = acts.JobOfStepFailed("the Spark job failed: a file is damaged\nand a page of Java")


def test_a_spark_job_that_fails_fails_the_turn_once_all_steps_have_had_theirs(table, monkeypatch):
    found, lines = Taking(monkeypatch, table), []
    found.wrong = [FAILED, None, FAILED]
    steps = [step("rewrite_data_files"), step("rewrite_manifests"), step("expire_snapshots")]
    with pytest.raises(LakehouseError) as failure:
        lines.extend(carried_out.carry_out(ORDERS, steps, ATTEMPT, print, clock=a_while_later))
    assert failure.value.__cause__ is FAILED
    told = "failed: the Spark job failed: a file is damaged"
    assert str(failure.value) == f"silver.orders: rewrite_data_files of silver.orders {told}; 2 steps failed in all"
    assert lines[0] == f"silver.orders: rewrite_data_files, for a test: {told}"
    assert [one.split(":")[0] for one in found.outcomes] == ["failed", "done", "failed"]


@pytest.mark.parametrize(
    "error",
    [acts.LeaseLost("it was lost"), RowsChanged("fewer rows"), FilesMissing("a file is gone"),
     ConnectionError("the catalog at x does not answer")],
)  # fmt: skip
def test_what_says_something_of_other_steps_too_stops_the_turn(table, monkeypatch, error):
    found = Taking(monkeypatch, table)
    found.wrong = [error]
    with pytest.raises(type(error)):
        found.carry([step("rewrite_data_files"), step("rewrite_manifests")], a_while_later())
    assert len(found.asked) == 1


def test_a_turn_in_which_a_job_failed_is_not_put_off_by_who_writes_then(table, monkeypatch):
    """Who goes on with the rest is told how many steps were taken, not how they ended."""
    found, free = Taking(monkeypatch, table), [True] * 2
    monkeypatch.setattr(leases, "holder", lambda _: None)
    monkeypatch.setattr(leases, "acquire", lambda *_, **__: bool(free) and free.pop() and found.take_lease())
    found.wrong = [FAILED]
    with pytest.raises(LakehouseError, match=r"rewrite_data_files of silver\.orders failed") as failure:
        found.carry([step("rewrite_data_files"), step("rewrite_manifests")], a_while_later())
    assert not isinstance(failure.value, carried_out.PutOff)


LET_GO = Step(table="silver.orders", operation="delete_old_rows", reason="a test", does="")
BUSY = acts.HasToWait("silver.clean is being written by a run")


@pytest.mark.parametrize("again", [True, False])
def test_a_step_that_has_to_wait_says_for_whom_and_is_tried_once_more_after_the_others(table, monkeypatch, again):
    found = Taking(monkeypatch, table)
    found.wrong = [BUSY, None, *([BUSY] if again else [])]
    lines = found.carry([LET_GO, step("rewrite_manifests")], a_while_later())
    waits = "put off: silver.clean is being written by a run"
    assert [one.operation for one in found.asked] == ["delete_old_rows", "rewrite_manifests", "delete_old_rows"]
    assert found.outcomes == [waits, "done", waits if again else "done"]
    assert lines[0] == f"silver.orders: delete_old_rows, for a test: {waits}"
    assert (lines[2] == lines[0]) is again


def test_a_step_that_has_to_wait_is_tried_once_more_also_where_the_rest_was_put_off(table, monkeypatch):
    found, free = Taking(monkeypatch, table), [True] * 2
    monkeypatch.setattr(leases, "holder", lambda _: None)
    monkeypatch.setattr(leases, "acquire", lambda *_, **__: bool(free) and free.pop() and found.take_lease())
    monkeypatch.setattr(taken.log, "was_put_off", lambda *_: found.outcomes[-1].startswith("put off"))
    found.wrong, steps = [BUSY], [LET_GO, step("rewrite_manifests")]
    with pytest.raises(carried_out.Busy) as busy:
        found.carry(steps, a_while_later())
    free += [True] * 2  # for what is tidied up, and the next step
    with pytest.raises(carried_out.Busy) as again:
        found.carry(steps, a_while_later(), start=busy.value.taken)
    monkeypatch.setattr(taken.log, "was_put_off", lambda *_: True)
    free += [True] * 2
    found.carry(steps, a_while_later(), start=again.value.taken)
    assert [one.operation for one in found.asked] == ["delete_old_rows", "rewrite_manifests", "delete_old_rows"]


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
