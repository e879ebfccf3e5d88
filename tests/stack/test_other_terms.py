"""Contracts that come to read the order, the key or the intervals of what is there already in another way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from lakehouse import steps
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval
from lakehouse.plan import Attempt
from lakehouse.rollback import carried_out
from lakehouse.rollback.planned import plan
from lakehouse.store import client
from tests.stack.foreign import DAY, Source, feed_replayed, lines
from tests.stack.foreign import task as one
from tests.stack.shop import in_session, interval

NEXT = DAY + timedelta(1)
BOTH_DAYS = Interval(interval(DAY).start, interval(NEXT).end)
EVENT = """
  id:   {type: bigint, required: true, from: id}
  name: {type: string, required: true, from: name}
"""


@pytest.fixture
def events(stack, tmp_path) -> Iterator[Source]:
    opened = Source(tmp_path, "json_lines", EVENT)
    yield opened
    opened.shop.close()


def clean(source: Source, spark: Any, day: Any = DAY) -> Any:
    return source.shop.run(source.shop.silver, day, in_session(spark))


# --- Another order of versions ---


def test_the_newest_version_by_a_mended_order_wins_within_an_interval(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 10, "first", rev=8), one(1, 5, "second", rev=9))})
    assert tasks.rows("id, name") == [(1, "first")]
    tasks.mended("from: at}", "from: rev}")
    clean(tasks, spark)
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "second")]


@pytest.mark.parametrize("days", [(DAY, NEXT), (NEXT, DAY)], ids=["in order", "backwards"])
def test_the_newest_version_by_a_mended_order_wins_whichever_interval_runs_first(tasks, spark, days):
    tasks.run(spark, {"a.json": lines(one(1, 10, "first", rev=8))})
    tasks.run(spark, {"b.json": lines(one(1, 5, "second", rev=9))}, NEXT)
    assert tasks.rows("id, name") == [(1, "first")]
    tasks.mended("from: at}", "from: rev}")
    for day in days:
        clean(tasks, spark, day)
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "second")]


def test_what_came_after_the_contract_was_mended_wins_once_all_is_read_again(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 10, "first", rev=8))})
    tasks.mended("from: at}", "from: rev}")
    tasks.run(spark, {"b.json": lines(one(1, 5, "second", rev=9))}, NEXT)
    clean(tasks, spark)
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "second")]


# --- Another key ---


def test_a_record_whose_key_gained_a_column_is_there_once(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1, rev=1), one(2, 1, "b", rev=1))})
    tasks.mended("  at:   {type", "  rev:  {type: bigint, required: true, from: rev}\n  at:   {type")
    tasks.mended("key: [id]", "key: [id, rev]")
    clean(tasks, spark)
    assert tasks.rows("id, rev, name") == [(1, 1, "a"), (2, 1, "b")]
    assert feed_replayed(tasks) == [(1, "a"), (2, "b")]


def test_a_key_under_another_name_is_refused(tasks, spark):
    """No row of the table has a value in it: any of them could be any record's."""
    tasks.run(spark, {"a.json": lines(one(1, 1, rev=1), one(2, 1, "b", rev=2))})
    before = tasks.shop.state()[tasks.shop.silver]
    tasks.mended(
        "  id:   {type: bigint, required: true, from: id}", "  rev:  {type: bigint, required: true, from: rev}"
    )
    tasks.mended("key: [id]", "key: [rev]")
    with pytest.raises(LakehouseError, match=r"before its key was \(rev\) have nothing in these columns"):
        clean(tasks, spark)
    assert tasks.shop.state()[tasks.shop.silver][0] == before[0]


# --- Other intervals ---


def widened(source: Source, spark: Any) -> None:
    """Two days, with a record of the first that was given up and one that waits; then silver takes them as one."""
    source.run(spark, {"a.json": lines({"id": 1, "name": "a"}, {"id": 2})})
    source.resolve(spark, "discarded")
    source.run(spark, {"b.json": lines({"id": 3, "name": "b"}, {"id": 4})}, NEXT)
    source.mended("start: 2026-01-01", 'start: 2026-01-01\nschedule: "0 0 1-31/2 * *"')


def test_a_wider_interval_takes_the_place_of_those_within_it(events, spark):
    widened(events, spark)
    clean(events, spark, BOTH_DAYS)
    assert events.rows("id, name") == [(1, "a"), (3, "b")]
    assert events.rejected() == [("a.json", ["name.required"]), ("b.json", ["name.required"])]
    assert clean(events, spark, BOTH_DAYS) is None
    events.mended("required: true, from: name}", "from: name}")
    assert events.resolve(spark, "replayed")["inserted"] == 1, "the one that was given up stays so"
    assert events.rows("id") == [(1,), (3,), (4,)]


def test_a_part_of_an_interval_that_was_taken_as_a_whole_is_refused(events, spark):
    widened(events, spark)
    clean(events, spark, BOTH_DAYS)
    events.mended('schedule: "0 0 1-31/2 * *"', 'schedule: "@daily"')
    for day in (DAY, NEXT):
        assert clean(events, spark, day) is None, "it has all of the day"
        events.shop.land(day, {"more.json": lines({"id": 5, "name": "c", "day": str(day)})})
        events.shop.run(events.shop.bronze, day, in_session(spark))
        with pytest.raises(LakehouseError, match=r"took 2026-.* as a part of 2026-.*; to take it again, write the sch"):
            clean(events, spark, day)
    assert events.rows("id") == [(1,), (3,)]


def test_what_an_interval_of_before_took_is_taken_by_no_other(events, spark):
    widened(events, spark)
    clean(events, spark, BOTH_DAYS)
    events.mended('schedule: "0 0 1-31/2 * *"', 'schedule: "0 0 2-30/2 * *"')
    third = NEXT + timedelta(1)
    events.shop.land(third, {"c.json": lines({"id": 6, "name": "c"})})
    events.shop.run(events.shop.bronze, third, in_session(spark))
    with pytest.raises(
        LakehouseError, match=r"has a part that was taken with 2026-01-01 .*: what bronze\.\w+ took for"
    ):
        clean(events, spark, Interval(interval(NEXT).start, interval(third).end))
    assert events.rows("id") == [(1,), (3,)]


def moved_to_berlin(source: Source) -> None:
    for layer in ("bronze", "silver"):
        (file,) = (source.shop.folder / layer).glob("*.yaml")
        file.write_text(file.read_text().replace("start: 2026-01-01", "start: 2026-01-01\ntimezone: Europe/Berlin"))


def in_berlin(day: Any) -> Interval:
    hour = timedelta(hours=1)
    return Interval(interval(day).start - hour, interval(day).end - hour)


def test_an_interval_of_another_zone_beside_what_was_taken_already_is_taken(events, spark):
    """Its first hour was a day's of the zone before, which silver has."""
    events.run(spark, {"a.json": lines({"id": 1, "name": "a"})})
    moved_to_berlin(events)
    events.shop.land(NEXT, {"b.json": lines({"id": 2, "name": "b"})})
    for dataset in events.shop.datasets:
        events.shop.run(dataset, in_berlin(NEXT), in_session(spark))
    assert events.rows("id") == [(1,), (2,)]


PARTLY = "has only a part of what bronze"


def test_what_silver_had_not_taken_before_the_zone_changed_is_not_passed_over(events, spark):
    events.run(spark, {"a.json": lines({"id": 1, "name": "a"})})
    events.shop.land(DAY, {"late.json": lines({"id": 9, "name": "late"})})
    events.shop.run(events.shop.bronze, DAY, in_session(spark))
    moved_to_berlin(events)
    events.shop.land(NEXT, {"b.json": lines({"id": 2, "name": "b"})})
    events.shop.run(events.shop.bronze, in_berlin(NEXT), in_session(spark))
    with pytest.raises(LakehouseError, match=PARTLY):
        clean(events, spark, in_berlin(NEXT))


def test_a_file_that_is_corrected_after_the_zone_changed_is_not_there_beside_its_earlier_version(events, spark):
    events.run(spark, {"a.json": lines({"id": 1, "name": "a"})})
    moved_to_berlin(events)
    events.shop.land(DAY, {"a.json": lines({"id": 1, "name": "corrected"})})
    events.shop.run(events.shop.bronze, in_berlin(DAY), in_session(spark))
    with pytest.raises(LakehouseError, match=PARTLY):
        clean(events, spark, in_berlin(DAY))
    assert events.rows("id, name") == [(1, "a")]


def test_events_go_whose_input_was_undone_and_came_to_nothing_the_second_time(events, spark):
    events.run(spark, {"a.json": lines({"id": 1, "name": "a"})}, NEXT)
    bronze = events.shop.contract(events.shop.bronze)
    before = str(events.shop.state()[bronze.dataset][0])
    events.run(spark, {"b.json": lines({"id": 2, "name": "wrong"}, {"id": 3})})
    carried_out.apply(plan(bronze, before), "ann", "not ours")
    client().delete_object(Bucket="landing", Key=f"foreign_{events.shop.suffix}/{DAY}/b.json")
    for dataset in events.shop.datasets:
        events.shop.run(dataset, DAY, in_session(spark))
    assert events.rows("id") == [(1,)]
    assert events.rejected() == []


# --- Another source, or another kind of delivery ---


@pytest.mark.parametrize("changed", [{"delivers": "snapshot"}, {"reads": "bronze.other"}])
def test_a_contract_that_is_filled_otherwise_is_refused_before_rows_of_both_are_mixed(tasks, spark, changed):
    tasks.run(spark, {"a.json": lines(one(1, 1))})
    contract = tasks.shop.contract(tasks.shop.silver)
    mended = contract.model_copy(update=changed)
    told = f"is filled from changes of {contract.reads}, and its contract now says {mended.delivers} of {mended.reads}"
    with pytest.raises(LakehouseError, match=told):
        steps.write(mended, interval(DAY), Attempt("run", 1), in_session(spark))
