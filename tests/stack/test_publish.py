"""The one way to main, on the real catalog."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.catalog import coverage
from lakehouse.intervals import Interval
from lakehouse.publish import MainMoved, drop_branches, publish
from tests.stack import tables

DAY = Interval(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
NEXT = Interval(DAY.end, DAY.end + timedelta(1))


def test_the_first_batch_of_an_empty_table_becomes_main_and_its_branch_is_gone(name):
    write = tables.write(name, [1, 2])
    assert tables.ids(name) == []
    publish(write, covers=DAY)
    assert tables.ids(name) == [1, 2]
    assert list(tables.loaded(name).metadata.refs) == ["main"]
    assert DAY in coverage(tables.loaded(name))


def test_data_branch_and_coverage_move_in_one_commit(name):
    write = tables.write(name, [1])
    before = tables.loaded(name).metadata_location
    publish(write, covers=DAY)
    found = tables.loaded(name)
    assert [entry.metadata_file for entry in found.metadata.metadata_log][-1] == before


def test_a_row_that_somebody_else_committed_meanwhile_is_never_lost(name):
    tables.add(name, [1])
    write = tables.write(name, [2])
    tables.add(name, [3])
    with pytest.raises(MainMoved):
        publish(write, covers=DAY)
    assert tables.ids(name) == [1, 3]
    assert DAY not in coverage(tables.loaded(name))


def test_a_branch_that_moved_after_its_audit_is_not_published(name):
    tables.add(name, [1])
    write = tables.write(name, [2])
    tables.add(name, [99], branch=write.branch)
    with pytest.raises(MainMoved):
        publish(write, covers=DAY)
    assert tables.ids(name) == [1]


def test_publishing_twice_is_publishing_once(name):
    write = tables.write(name, [1])
    publish(write, covers=DAY)
    after = tables.loaded(name).metadata_location
    publish(write, covers=DAY)
    assert tables.loaded(name).metadata_location == after


def test_a_batch_already_in_main_stays_published_when_others_follow(name):
    first = tables.write(name, [1])
    publish(first, covers=DAY)
    publish(tables.write(name, [2], branch="audit_second"), covers=NEXT)
    publish(first, covers=DAY)
    assert tables.ids(name) == [1, 2]


def test_an_interval_without_rows_is_covered_without_a_new_snapshot(name):
    tables.add(name, [1])
    main = tables.head(name)
    nothing = tables.TableWrite(table=name, branch="", base=main, head=main)
    publish(nothing, covers=DAY)
    assert tables.head(name) == main
    assert DAY in coverage(tables.loaded(name))


def test_coverage_adds_up_over_batches(name):
    publish(tables.write(name, [1], branch="audit_a"), covers=DAY)
    publish(tables.write(name, [2], branch="audit_b"), covers=NEXT)
    assert coverage(tables.loaded(name)).intervals == (Interval(DAY.start, NEXT.end),)


def test_dropping_audit_branches_leaves_main_and_other_branches_alone(name):
    tables.add(name, [1])
    tables.write(name, [2])
    tables.loaded(name).manage_snapshots().create_branch(tables.head(name), "analyst").commit()
    drop_branches(name, "")
    assert sorted(tables.loaded(name).metadata.refs) == ["analyst", "main"]
