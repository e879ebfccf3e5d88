"""Where tables, ledger and coverage go in a rollback, on small tables of the real catalog: a dataset and its feed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from lakehouse import naming
from lakehouse.batch import DISCARDED, PUBLISHED, UNDONE, Batch, TableWrite
from lakehouse.catalog import coverage, ref_snapshot, table
from lakehouse.ledger import batches, rollbacks
from lakehouse.naming import feed_table, quarantine_table
from lakehouse.publish import publish
from lakehouse.rollback import carried_out, planned
from lakehouse.rollback.planned import CannotRollBack, plan
from lakehouse.settling import settle
from tests.stack import tables
from tests.stack.shop import Shop, interval

FIRST = date(2026, 1, 1)


class Cut(Exception):
    """The process ends here."""


class Small:
    """A silver dataset whose batches are numbers: each is a row of the table, of the feed and of quarantine."""

    def __init__(self, shop: Shop) -> None:
        self.contract = shop.contract(shop.silver)
        self.own, self.feed, self.quarantine = shop.silver, feed_table(shop.silver), quarantine_table(shop.silver)
        for name in self.contract.tables:
            tables.make(name)

    def publish(self, number: int, *, own: bool = True, until: str = "the end", day: int | None = None) -> None:
        """Publish a batch with that number, of the interval with that number unless said; `until` cuts it short."""
        batch_id, branch = f"{naming.dag_id(self.own)}-{number}", f"audit_{number}"
        companions = [self._written(name, number, branch, batch_id) for name in (self.quarantine, self.feed)]
        written = [*companions, self._written(self.own, number, branch, batch_id) if own else self._nothing()]
        of = interval(FIRST + timedelta(number if day is None else day))
        batch = Batch(
            batch_id=batch_id,
            dataset=self.own,
            interval_start=of.start,
            interval_end=of.end,
            fingerprint=str(number),
            contract_version=self.contract.version,
            run="run",
            attempt=f"run#{number}",
            writes=tuple(written),
        )
        batches.intend(batch)
        for write in written:
            if write.table == until:
                raise Cut
            publish(write, covers=of if write.table == self.own else None)
        batches.settle(batch_id, PUBLISHED)

    def _written(self, name: str, number: int, branch: str, batch_id: str) -> TableWrite:
        return tables.write(name, [number], branch, **{naming.BATCH: batch_id})

    def _nothing(self) -> TableWrite:
        base = ref_snapshot(table(self.own))
        return TableWrite(table=self.own, branch="", base=base, head=base)

    def go(self, to: int) -> None:
        carried_out.apply(plan(self.contract, str(to)), "who", "why")

    def at(self, name: str | None = None) -> int:
        return tables.head(name or self.own)

    @property
    def rows(self) -> tuple[list[int], list[int]]:
        return tables.ids(self.own), tables.ids(self.feed)

    def covers(self, *numbers: int) -> bool:
        """Whether these intervals of the first nine are covered, and no other."""
        held = {n for n in range(9) if interval(FIRST + timedelta(n)) in coverage(table(self.own))}
        return held == set(numbers)

    def states(self) -> dict[int, str]:
        return {int(batch.fingerprint): batch.state for batch in batches.recent(self.own)}


@pytest.fixture
def small(shop) -> Iterator[Small]:
    return Small(shop)


def test_back_and_forward_move_table_feed_coverage_and_ledger(small):
    small.publish(1)
    first = small.at()
    for number in (2, 3):
        small.publish(number)
    last = small.at()
    small.go(first)
    assert small.rows == ([1], [1])
    assert small.covers(1)
    assert small.states() == {1: PUBLISHED, 2: UNDONE, 3: UNDONE}
    small.go(last)
    assert small.rows == ([1, 2, 3], [1, 2, 3])
    assert small.covers(1, 2, 3)
    assert small.states() == dict.fromkeys((1, 2, 3), PUBLISHED)


def test_forward_leaves_out_what_had_something_else_built_in_its_place(small):
    small.publish(1)
    first = small.at()
    small.publish(2)
    second = small.at()
    small.publish(3)
    small.go(second)
    small.publish(4)
    last = small.at()
    small.go(first)
    small.go(last)
    assert small.rows == ([1, 2, 4], [1, 2, 4])
    assert small.covers(1, 2, 4)
    assert small.states() == {1: PUBLISHED, 2: PUBLISHED, 3: UNDONE, 4: PUBLISHED}


def test_a_batch_that_changed_no_row_is_undone_and_done_again_with_those_around_it(small):
    small.publish(1)
    first = small.at()
    small.publish(2)
    small.publish(3, own=False)
    small.publish(4)
    last = small.at()
    small.go(first)
    assert small.rows == ([1], [1])
    assert small.states() == {1: PUBLISHED, 2: UNDONE, 3: UNDONE, 4: UNDONE}
    small.go(last)
    assert small.rows == ([1, 2, 4], [1, 2, 3, 4])
    assert small.covers(1, 2, 3, 4)
    assert set(small.states().values()) == {PUBLISHED}


def test_a_feed_goes_back_to_before_tries_that_were_cut_short(small):
    """The first try of a batch published its feed and not its table: the second was written on top of that."""
    small.publish(1)
    first = small.at()
    with pytest.raises(Cut):
        small.publish(2, until=small.own)
    settle(small.own)
    assert small.states() == {1: PUBLISHED, 2: DISCARDED}
    small.publish(3)
    last = small.at()
    assert small.rows == ([1, 3], [1, 2, 3])
    small.go(first)
    assert small.rows == ([1], [1])
    small.go(last)
    assert small.rows == ([1, 3], [1, 2, 3])


def test_the_same_work_published_before_is_not_taken_for_the_try_that_was_cut_short(small):
    small.publish(1)
    small.publish(2)
    with pytest.raises(Cut):
        small.publish(1, until=small.own)
    settle(small.own)
    assert small.states() == {1: DISCARDED, 2: PUBLISHED}


def test_a_batch_that_wrote_to_companions_only_counts_when_they_are_published(small):
    """Its interval was covered before: that alone says nothing of it."""
    small.publish(1)
    with pytest.raises(Cut):
        small.publish(2, own=False, day=1, until=small.feed)
    settle(small.own)
    assert small.states() == {1: PUBLISHED, 2: DISCARDED}
    with pytest.raises(Cut):
        small.publish(3, own=False, day=1, until=small.own)
    settle(small.own)
    assert small.states() == {1: PUBLISHED, 2: DISCARDED, 3: PUBLISHED}


def test_forward_step_by_step_brings_back_what_lies_between(small):
    small.publish(1)
    first = small.at()
    small.publish(2)
    second = small.at()
    small.publish(3, own=False)
    small.publish(4)
    last = small.at()
    for version in (first, second, last):
        small.go(version)
    assert small.rows == ([1, 2, 4], [1, 2, 3, 4])
    assert small.covers(1, 2, 3, 4)
    assert set(small.states().values()) == {PUBLISHED}


def test_a_batch_that_found_its_rows_there_by_somebody_elses_hand_is_undone_with_them(small):
    small.publish(1)
    first = small.at()
    tables.add(small.own, [2])
    small.publish(2, own=False)
    small.go(first)
    assert small.states() == {1: PUBLISHED, 2: UNDONE}
    assert small.covers(1)


def test_a_feed_that_the_contract_no_longer_has_goes_back_all_the_same(small):
    small.publish(1)
    first = small.at()
    small.publish(2)
    small.contract = small.contract.model_copy(update={"change_feed": False})
    small.go(first)
    assert small.rows == ([1], [1])


def test_a_version_that_the_ledger_does_not_know_is_not_undone(small):
    small.publish(1)
    first = small.at()
    tables.add(small.own, [2], **{naming.BATCH: "from another ledger"})
    with pytest.raises(CannotRollBack, match="batch from another ledger, which the ledger does not know"):
        small.go(first)


@pytest.fixture
def begun(small, monkeypatch) -> Any:
    """A rollback to the first of three batches that is cut short, at a place."""
    small.publish(1)
    first = small.at()
    small.publish(2)
    small.publish(3)

    def cut(where: str, to: int = first) -> int:
        real = carried_out.move
        stop = {"before the table itself": small.own, "before the feed": small.feed}.get(where)

        def move(one: Any, *more: Any) -> None:
            if where == "before anything" or one.table == stop:
                raise Cut
            real(one, *more)

        def confirm(*_: Any) -> None:
            raise Cut

        with monkeypatch.context() as patched:
            patched.setattr(carried_out, "move", move)
            if where == "before the ledger knows":
                patched.setattr(rollbacks, "confirm", confirm)
            with pytest.raises(Cut):
                small.go(to)
        assert rollbacks.unfinished(small.own)
        return to

    return cut


PLACES = ["before the feed", "before the table itself", "before the ledger knows"]


@pytest.mark.parametrize("where", PLACES)
def test_what_is_cut_short_is_finished_by_whoever_comes_next(small, begun, where):
    first = begun(where)
    settle(small.own)
    assert small.at() == first
    assert small.rows == ([1], [1])
    assert small.covers(1)
    assert small.states() == {1: PUBLISHED, 2: UNDONE, 3: UNDONE}
    assert not rollbacks.unfinished(small.own)


@pytest.mark.parametrize("where", PLACES)
def test_forward_is_finished_as_well(small, begun, where):
    first, last = tables.loaded(small.own).metadata.snapshots[0].snapshot_id, small.at()
    small.go(first)
    begun(where, last)
    settle(small.own)
    assert small.rows == ([1, 2, 3], [1, 2, 3])
    assert small.covers(1, 2, 3)
    assert set(small.states().values()) == {PUBLISHED}
    assert not rollbacks.unfinished(small.own)


def test_a_move_that_comes_late_after_the_rollback_was_given_up_is_refused(small, begun):
    begun("before anything")
    number, rollback = rollbacks.unfinished(small.own)[0]
    settle(small.own)
    for one in rollback.moves:
        with pytest.raises(CannotRollBack, match="was changed by somebody else meanwhile"):
            carried_out.move(one, number, rollback.properties)
    assert small.rows == ([1, 2, 3], [1, 2, 3])
    assert small.covers(1, 2, 3)


def test_what_changed_nothing_is_given_up(small, begun):
    begun("before anything")
    settle(small.own)
    assert small.rows == ([1, 2, 3], [1, 2, 3])
    assert [ref for name in small.contract.tables for ref in tables.loaded(name).metadata.refs if ref != "main"] == []
    assert rollbacks.recent(small.own)[0]["state"] == rollbacks.ABANDONED


def test_a_feed_that_moved_is_taken_back_when_the_table_has_gone_elsewhere(small, begun):
    begun("before the table itself")
    tables.add(small.own, [100])
    settle(small.own)
    assert small.rows == ([1, 2, 3, 100], [1, 2, 3])
    assert small.states() == dict.fromkeys((1, 2, 3), PUBLISHED)
    assert not rollbacks.unfinished(small.own)


def test_a_commit_on_top_of_a_rollback_does_not_bring_back_what_it_undid(small, begun):
    begun("before the ledger knows")
    tables.add(small.own, [100])
    settle(small.own)
    assert small.rows == ([1, 100], [1])
    assert small.covers(1)
    assert small.states() == {1: PUBLISHED, 2: UNDONE, 3: UNDONE}


def test_a_stranger_in_a_companion_does_not_block_the_dataset(small, begun):
    """Quarantine has moved, the feed has not, and somebody writes to it."""
    begun("before the feed")
    tables.add(small.feed, [100])
    settle(small.own)
    assert small.rows == ([1, 2, 3], [1, 2, 3, 100])
    assert tables.ids(small.quarantine) == [1, 2, 3]
    assert not rollbacks.unfinished(small.own)


def test_a_confirmation_that_comes_late_changes_nothing(small, begun):
    begun("before the ledger knows")
    number, rollback = rollbacks.unfinished(small.own)[0]
    settle(small.own)
    small.publish(2)
    rollbacks.confirm(number, rollback)
    rollbacks.abandon(number)
    assert small.states() == {1: PUBLISHED, 2: PUBLISHED, 3: UNDONE}
    assert rollbacks.recent(small.own)[0]["state"] == rollbacks.DONE


def test_a_part_of_a_batch_is_no_version_to_go_to(small):
    small.publish(1)
    write = tables.write(small.own, [2], "audit_2")
    with pytest.raises(CannotRollBack, match="never was at"):
        small.go(write.head or 0)


def test_a_feed_that_changed_since_is_not_rolled_forward(small):
    small.publish(1)
    first = small.at()
    small.publish(2)
    last = small.at()
    small.go(first)
    tables.add(small.feed, [100])
    with pytest.raises(CannotRollBack, match="has changed since it was rolled back"):
        small.go(last)


@pytest.mark.parametrize(
    ("guard", "off", "shown_by"),
    [
        ("_without_failed_tries", lambda _, base, __: base, test_a_feed_goes_back_to_before_tries_that_were_cut_short),
        ("_on_the_way", lambda *_: True, test_forward_leaves_out_what_had_something_else_built_in_its_place),
    ],
)
def test_without_its_guard_a_plan_is_wrong(small, monkeypatch, guard, off, shown_by):
    monkeypatch.setattr(planned, guard, off)
    with pytest.raises((AssertionError, CannotRollBack)):
        shown_by(small)


def test_without_looking_for_a_moved_table_the_ledger_keeps_what_main_has_lost(small, begun, monkeypatch):
    monkeypatch.setattr(carried_out, "_has_moved", lambda *_: False)
    with pytest.raises(AssertionError):
        test_a_commit_on_top_of_a_rollback_does_not_bring_back_what_it_undid(small, begun)
