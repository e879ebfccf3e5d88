"""Work that is done a second time, on other terms: another contract, another file, a task that was cleared.

One story each, in which a row or a batch would be lost, doubled or left as it was if one thing were forgotten.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from lakehouse import steps
from lakehouse.catalog import table
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval
from lakehouse.plan import Attempt
from lakehouse.query import run_sql
from tests.stack.foreign import DAY, Source, feed_replayed, lines
from tests.stack.foreign import task as one
from tests.stack.shop import in_session, interval

NEXT = DAY + timedelta(1)


def clean(source: Source, spark: Any, day: Any = DAY) -> steps.Handover | None:
    return source.shop.run(source.shop.silver, day, in_session(spark))


# --- Another contract ---


def test_rows_are_read_again_by_a_mended_contract(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1, " x "), one(2, 1, "y"), one(3, 1, "z"))})
    tasks.run(spark, {"b.json": lines(one(2, 2, " w "))}, NEXT)
    tasks.mended("from: name}", "from: name, clean: trim}")
    clean(tasks, spark)
    assert tasks.rows("id, name") == [(1, "x"), (2, " w "), (3, "z")], "the next day's record was not read yet"
    clean(tasks, spark, NEXT)
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "x"), (2, "w"), (3, "z")]
    assert clean(tasks, spark) is None


def test_a_record_that_a_mended_contract_rejects_leaves_the_table_to_the_one_before(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1, "first"), one(2, 1, "ok"))})
    tasks.run(spark, {"b.json": lines(one(1, 2, "bad"), one(3, 2, "bad"))}, NEXT)
    tasks.mended("from: name}", "from: name, accepted: [first, ok]}")
    clean(tasks, spark, NEXT)
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "first"), (2, "ok")]
    assert tasks.rejected() == [("b.json", ["name.accepted"])] * 2


def test_a_record_under_another_key_is_there_once(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1, number=11), one(2, 1, "b", number=12))})
    tasks.mended("from: id}", "from: number}")
    clean(tasks, spark)
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(11, "a"), (12, "b")]


def test_what_became_a_delete_is_deleted_and_what_no_longer_is_one_comes_back(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1), one(2, 1, gone="yes"), one(3, 1, gone="true"))})
    assert tasks.rows("id") == [(1,), (3,)]
    tasks.mended("gone = 'yes'", "gone = 'true'")
    clean(tasks, spark)
    assert tasks.rows("id") == [(1,), (2,)]


def test_an_interval_that_has_only_a_part_of_the_inputs_is_refused(tasks, spark):
    """As after a change of schedule: records of both halves would be in no interval."""
    tasks.run(spark, {"a.json": lines(one(1, 1))})
    tasks.run(spark, {"b.json": lines(one(2, 2))}, NEXT)
    half = timedelta(hours=12)
    across = Interval(interval(DAY).start + half, interval(NEXT).start + half)
    contract, attempt = tasks.shop.contract(tasks.shop.silver), Attempt(f"test/{uuid4().hex}", 1)
    with pytest.raises(LakehouseError, match=r"has only a part of what bronze\..* took for 2026-.*; give silver\."):
        steps.write(contract, across, attempt, in_session(spark))


def test_a_feed_that_was_switched_off_goes_on_with_what_it_missed(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1), one(2, 1), one(3, 1), one(4, 1))})
    tasks.mended("change_feed: true", "change_feed: false")
    tasks.run(spark, {"b.json": lines(one(1, 2, "b"), one(2, 2, gone="yes"), one(5, 2))}, NEXT)
    assert feed_replayed(tasks) == [(1, "a"), (2, "a"), (3, "a"), (4, "a")]
    tasks.mended("change_feed: false", "change_feed: true")
    tasks.run(spark, {"c.json": lines(one(3, 3, "c"))}, NEXT + timedelta(1))
    assert feed_replayed(tasks) == tasks.rows("id, name") == [(1, "b"), (3, "c"), (4, "a"), (5, "a")]
    tasks.run(spark, {"d.json": lines(one(4, 4, "d"))}, NEXT + timedelta(2))
    assert feed_replayed(tasks) == tasks.rows("id, name") == [(1, "b"), (3, "c"), (4, "d"), (5, "a")]


# --- Another file ---


def test_a_file_that_repeats_another_keeps_its_rows_when_that_one_is_corrected(tasks, spark):
    """The same bytes by mistake under two names: corrected is one of them."""
    same = lines(one(1, 1), one(2, 1))
    tasks.run(spark, {"a.json": same, "b.json": same})
    tasks.run(spark, {"a.json": lines(one(3, 1))})
    assert tasks.rows("id") == [(1,), (2,), (3,)]
    tasks.run(spark, {"c.json": same})
    assert run_sql(f"SELECT count(*) FROM {tasks.shop.bronze}")[1] == [(3,)], "known, though its first name is not"
    tasks.run(spark, {"b.json": lines(one(4, 1)), "c.json": lines(one(5, 1))})
    assert tasks.rows("id") == feed_ids(tasks) == [(3,), (4,), (5,)]


@pytest.mark.parametrize(("repeat", "winner"), [("b.json", "old"), ("0.json", "new")])
def test_what_a_repeat_keeps_stands_under_its_name(tasks, spark, repeat, winner):
    """Of two records at the same line of the same file, one corrected and one kept, any could win."""
    tasks.run(spark, {"a.json": lines(one(1, 1, "old"))})
    tasks.run(spark, {repeat: lines(one(1, 1, "old"))})
    tasks.run(spark, {"a.json": lines(one(1, 1, "new"))})
    file = repeat if winner == "old" else "a.json"
    assert tasks.rows("name, split_part(_source_file, '/', -1)") == [(winner, file)]
    tasks.run(spark, {repeat: lines(one(2, 1, "other"))})
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "new"), (2, "other")]


def test_a_file_that_took_anothers_bytes_keeps_their_rows_when_that_one_is_corrected(tasks, spark):
    """Files whose numbering shifts, and a run in the middle of it."""
    old, new = lines(one(1, 1)), lines(one(2, 1))
    tasks.run(spark, {"a.json": old, "b.json": new})
    tasks.run(spark, {"a.json": new})
    assert tasks.rows("id") == feed_ids(tasks) == [(2,)]
    tasks.run(spark, {"b.json": lines(one(3, 1))})
    assert tasks.rows("id") == feed_ids(tasks) == [(2,), (3,)]


def feed_ids(source: Source) -> list[tuple[int]]:
    return [(key,) for key, _ in feed_replayed(source)]


def test_a_bad_record_where_a_resolved_one_was_is_kept(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1), {"id": 2, "at": 1})})
    tasks.resolve(spark, "discarded")
    tasks.run(spark, {"a.json": lines(one(1, 1), {"id": 9, "at": 1})})
    assert tasks.rejected() == [("a.json", ["name.required"])] * 2


# --- The same once more, when what was there before is forgotten ---


def forget(source: Source, spark: Any) -> None:
    """Let every version of every table go that can go: all but the newest."""
    older = "older_than => TIMESTAMP'2100-01-01', retain_last => 1"
    for name in source.shop.state():
        spark.sql(f"CALL lake.system.expire_snapshots(table => '{name}', {older})")
        found = table(name)
        assert found is not None
        assert len(found.snapshots()) <= 1


def test_nothing_is_taken_twice_when_all_versions_have_expired_that_can(tasks, spark):
    shop = tasks.shop
    tasks.run(spark, {"a.json": lines(one(1, 1), one(2, 1))})
    tasks.run(spark, {"b.json": lines(one(2, 2, "b"), one(3, 2), b"oops\n")}, NEXT)
    forget(tasks, spark)
    before = shop.state()
    again = [shop.run(dataset, day, in_session(spark)) for day in (DAY, NEXT) for dataset in shop.datasets]
    assert again == [None] * 4
    assert shop.state() == before
    tasks.run(spark, {"c.json": lines(one(4, 1))})
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "a"), (2, "b"), (3, "a"), (4, "a")]
    assert run_sql(f"SELECT count(*) FROM {shop.bronze}")[1] == [(6,)]
    assert tasks.rejected() == [("b.json", ["record.malformed"])]
