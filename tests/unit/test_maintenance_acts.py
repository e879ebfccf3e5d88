"""Carrying a plan out: what is looked at again before a step is taken, and when maintenance stops."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.table.refs import SnapshotRefType
from sqlalchemy import create_engine, insert, select

from lakehouse.contracts import contract
from lakehouse.contracts.keeping import Maintenance, Retention
from lakehouse.jobs import Call, Maintained
from lakehouse.ledger import database, leases
from lakehouse.maintenance import acts, carried_out, orphans
from lakehouse.maintenance.expiry import bounds, expirable
from lakehouse.maintenance.narrowed import narrowed
from lakehouse.maintenance.planned import TooYoung
from lakehouse.maintenance.step import Step
from lakehouse.plan import Attempt
from lakehouse.publish import MainMoved
from lakehouse.settings import settings
from spark_jobs.errors import one_sentence
from tests.unit.iceberg_tables import catalog, replace, set_ref, versions

DAY = timedelta(days=1)
ORDERS = contract("silver.orders")
ATTEMPT = Attempt("a run", 1)


def made_at(found, version: int) -> datetime:
    return datetime.fromtimestamp(found.snapshot_by_id(version).timestamp_ms / 1000, UTC)


def kept(snapshots: str = "0d", last: int = 1) -> Retention:
    return Retention.model_validate({"snapshots": snapshots, "keep_last": last})


def step(operation: Any, **call: Any) -> Step:
    asked = Call(procedure=operation, **call)
    return Step(table="silver.orders", operation=operation, reason="a test", does="", call=asked)


def test_versions_of_maintenance_do_not_use_up_those_that_are_kept(table):
    for _ in range(3):
        replace(table)
    now = datetime.now(UTC) + 30 * DAY
    limit, last = bounds(table.metadata, kept(last=2), now)
    assert last == 5, "three of maintenance, and two of a writer"
    assert expirable(table.metadata, limit, last, now) == 4
    assert bounds(table.metadata, kept(last=7), now)[1] == 9, "where there are fewer, all are kept"


def test_a_version_of_the_last_day_never_expires(table):
    now = datetime.now(UTC) + timedelta(hours=23)
    limit, last = bounds(table.metadata, kept(), now)
    assert limit <= now - DAY
    assert expirable(table.metadata, limit, last, now) == 0


def test_an_old_version_that_was_main_until_today_stays(table):
    *_, before, head = versions(table)
    now = made_at(table, head) + DAY
    assert made_at(table, before) <= now - DAY
    assert bounds(table.metadata, kept(), now)[1] >= 2
    assert bounds(table.metadata, kept(), now + DAY)[1] == 1


def test_a_version_that_was_rolled_back_today_stays(table):
    line = versions(table)
    now = made_at(table, line[-1]) + 5 * DAY
    set_ref(table, "main", SnapshotRefType.BRANCH, line[2])
    rolled_back = table.metadata.snapshot_log[-1].model_copy(
        update={"timestamp_ms": int((now - timedelta(hours=1)).timestamp() * 1000)}
    )
    log = [*table.metadata.snapshot_log[:-1], rolled_back]
    metadata = table.metadata.model_copy(update={"snapshot_log": log})
    assert bounds(metadata, kept(), now)[0] <= made_at(table, line[-1])
    assert bounds(metadata, kept(), now + DAY)[0] == now, "a day later nobody reads it"


def test_an_old_plan_expires_no_more_than_the_contract_allows_by_now(table):
    now = datetime.now(UTC) + 30 * DAY
    longer = ORDERS.model_copy(update={"retention": kept("20d", 4)})
    old = step("expire_snapshots", older_than=now - 2 * DAY, retain_last=1)
    found = narrowed(old, longer, table.metadata, now).call
    assert (found.older_than, found.retain_last) == (now - 20 * DAY, 4)
    strict = step("expire_snapshots", older_than=now - 40 * DAY, retain_last=9)
    found = narrowed(strict, longer, table.metadata, now).call
    assert (found.older_than, found.retain_last) == (now - 40 * DAY, 9), "nor more than the plan said"


def test_an_old_plan_removes_no_files_that_are_too_young_by_now_and_lists_them_first(table):
    now = datetime.now(UTC)
    policy = Maintenance.model_validate({"orphans_after": "10d"})
    changed = ORDERS.model_copy(update={"maintenance": policy})
    old = step("remove_orphan_files", older_than=now, dry_run=False)
    found = narrowed(old, changed, table.metadata, now).call
    assert (found.older_than, found.dry_run) == (now - 10 * DAY, True)
    forced = policy.model_copy(update={"orphans_after": timedelta(0)})
    with pytest.raises(TooYoung):
        narrowed(old, changed.model_copy(update={"maintenance": forced}), table.metadata, now)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_folder_that_is_shared_since_the_plan_was_made_is_not_swept(table, tmp_path, monkeypatch, is_shared):
    strange, old = "s3://lake/silver/orders/data/strange.parquet", datetime(2026, 1, 1, tzinfo=UTC)
    known = catalog(tmp_path)
    if is_shared:
        known.create_table("silver.other", table.schema(), location=f"{table.location()}/inside")
    monkeypatch.setattr(acts, "_called", lambda *_: Maintained(counters={}, files=(strange,)))
    monkeypatch.setattr(orphans, "catalog", lambda: known)
    monkeypatch.setattr(orphans, "written", lambda _: [(strange, old), ("s3://lake/silver/orders/unlisted", old)])
    monkeypatch.setattr(orphans, "mixed", lambda *_: "")  # its data files are only named, and lie elsewhere
    asked = step("remove_orphan_files", older_than=datetime.now(UTC), dry_run=True)
    tools = acts.Tools("silver.orders", ATTEMPT, print, 0)
    if is_shared:
        with pytest.raises(orphans.NoOrphans, match=r"is shared with silver\.other"):
            acts.look_for_orphans(table, asked, tools)
    else:
        found = acts.look_for_orphans(table, asked, tools).call
        assert (found.files, found.dry_run) == (((strange, old),), True)


def test_files_are_listed_first_and_only_these_are_removed_if_there_are_any(monkeypatch):
    calls: list[Call] = []
    monkeypatch.setattr(leases, "renew", lambda *_: True)
    monkeypatch.setattr(acts, "_called", lambda _step, call, *_: calls.append(call))
    tools, now = acts.Tools("silver.orders", ATTEMPT, print, 0), datetime.now(UTC)
    asked = step("remove_orphan_files", older_than=now, dry_run=True)
    assert acts.act(ORDERS, asked, tools) == Maintained(counters={})
    assert calls == []
    listed = step("remove_orphan_files", older_than=now, dry_run=True, files=(("s3://lake/a", now),))
    acts.act(ORDERS, listed, tools)
    assert [(call.dry_run, call.files) for call in calls] == [(False, (("s3://lake/a", now),))]


OLD = Step(table="bronze.orders", operation="delete_old_rows", reason="a test", does="", rows_from=date(2026, 1, 1))


@pytest.mark.parametrize("by", ["a reader that works", "a reader that lacks rows", "a writer", "nobody"])
def test_old_rows_that_stay_say_for_whom(table, monkeypatch, by):
    told = {
        "a reader that works": "silver.orders is being written by a run",
        "a reader that lacks rows": "silver.orders has yet to take 2025-12-31",
        "a writer": "bronze.orders: main is somewhere else",
    }

    def let_go(*given: Any) -> Maintained:
        if by == "a writer":
            raise MainMoved(told[by])
        return Maintained(counters={} if given[-1]() else {"rows": 5})

    monkeypatch.setattr(leases, "renew", lambda *_: True)
    monkeypatch.setattr(leases, "release", lambda *_: None)
    monkeypatch.setattr(leases, "acquire", lambda *_, **__: by != "a reader that works")
    monkeypatch.setattr(leases, "holder", lambda _: SimpleNamespace(owner="a run"))
    monkeypatch.setattr(acts, "there", lambda _: table)
    monkeypatch.setattr(acts, "let_go", let_go)
    monkeypatch.setattr(acts, "not_yet_taken", lambda *_: told[by] if by == "a reader that lacks rows" else "")
    with nullcontext() if by == "nobody" else pytest.raises(acts.HasToWait, match=told[by]):
        assert acts.act(contract("bronze.orders"), OLD, acts.Tools("bronze.orders", ATTEMPT, print, 0)).counters


class JobFailed(Exception):
    """As Airflow's runner, or that of the command, says it."""


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (JobFailed("a file is damaged"), acts.JobOfStepFailed),
        (JobFailed(), acts.JobOfStepFailed),
        (JobFailed(one_sentence(ConnectionError("UNAVAILABLE: failed to connect"))), JobFailed),
        (JobFailed(one_sentence(ConnectionError("127.0.0.1:8181 refused"))), JobFailed),
    ],
)
def test_a_job_that_fails_fails_its_step_alone_unless_a_service_does_not_answer(monkeypatch, error, raised):
    def run(_: object) -> None:
        raise error

    monkeypatch.setattr(leases, "renew", lambda *_: True)
    monkeypatch.setattr(acts.jobs, "hand_over", lambda _: None)
    monkeypatch.setenv("LAKEHOUSE_CATALOG_URI", "http://127.0.0.1:8181")
    settings.cache_clear()
    with pytest.raises(raised, match=str(error) or "JobFailed"):
        acts.act(ORDERS, step("rewrite_manifests"), acts.Tools("silver.orders", ATTEMPT, run, 0))


@pytest.fixture
def ledger(monkeypatch):
    """A ledger that has leases only, in memory."""
    found = create_engine("sqlite://")
    database.leases.create(found)
    monkeypatch.setattr(leases, "engine", lambda: found)

    def hold(attempt: str) -> None:
        moment = datetime.now(UTC)
        row = {"dataset": "silver.orders", "owner": "a run", "attempt": attempt}
        with found.begin() as connection:
            connection.execute(insert(database.leases).values(taken_at=moment, expires_at=moment, **row))

    def holders() -> list[str]:
        with found.connect() as connection:
            return list(connection.execute(select(database.leases.c.attempt)).scalars())

    return hold, holders


def test_a_try_that_is_thought_dead_does_not_free_the_lease_of_the_next(ledger):
    hold, holders = ledger
    hold("a run#2")
    leases.release("silver.orders", "a run", "a run#1")
    assert holders() == ["a run#2"]
    leases.release("silver.orders", "a run", "a run#2")
    assert holders() == []
    hold("a run#2")
    leases.release("silver.orders", "a run")
    assert holders() == [], "the run's own end frees it, whichever try holds it"


class Leases:
    """Who asks for the lease of a dataset, and whether it is still there after so many steps."""

    def __init__(self, monkeypatch, found, until: int) -> None:
        self.taken_over: list[bool] = []
        self.steps = 0
        self.until = until
        self.released: list[str | None] = []
        monkeypatch.setattr(leases, "acquire", self.acquire)
        monkeypatch.setattr(leases, "release", lambda *given: self.released.append(given[2]))
        monkeypatch.setattr(carried_out, "there", lambda _: found)
        monkeypatch.setattr(carried_out, "_tidy", lambda *_: [])
        monkeypatch.setattr(carried_out, "_act", self.act)
        monkeypatch.setattr(carried_out, "close", lambda _, taken, *__: setattr(taken, "line", f"step {self.steps}"))

    def acquire(self, *_: object, take_over: bool = True) -> bool:
        self.taken_over.append(take_over)
        return True

    def act(self, _contract: object, taken: Any, *_: object) -> None:
        self.steps += 1
        taken.ours = self.steps < self.until


def test_maintenance_stops_after_the_step_in_which_its_lease_was_lost(table, monkeypatch):
    found, lines = Leases(monkeypatch, table, until=2), []
    steps = [step("rewrite_manifests")] * 4
    with pytest.raises(carried_out.LeaseLost, match=r"maintenance of silver\.orders stops: its lease was lost"):
        lines.extend(carried_out.carry_out(ORDERS, steps, ATTEMPT, print, clock=a_while_later))
    assert lines == ["step 1", "step 2"]
    assert found.taken_over == [True, False, False], "a later try of the run is not taken over from"
    assert set(found.released) == {ATTEMPT.id}


def a_while_later() -> datetime:
    return datetime.now(UTC) + 30 * DAY


def test_no_job_is_begun_without_the_lease(monkeypatch):
    monkeypatch.setattr(leases, "renew", lambda *_: False)
    with pytest.raises(acts.LeaseLost):
        acts.act(ORDERS, step("rewrite_manifests"), acts.Tools("silver.orders", ATTEMPT, print, 0))


def test_what_may_go_is_judged_by_the_ledgers_clock(table, monkeypatch):
    clocks: list[Any] = []
    Leases(monkeypatch, table, until=9)
    taken = SimpleNamespace(line="", ours=True, unwritten=0, failure="", waits=False)
    monkeypatch.setattr(carried_out, "_take", lambda *given: clocks.append(given[-1]) or taken)
    list(carried_out.carry_out(ORDERS, [step("rewrite_manifests")], ATTEMPT, print))
    assert clocks == [database.now]
