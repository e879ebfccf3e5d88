"""Publishes that were cut off between their tables, cleared, or late: the next run loses and doubles nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import functions as F

from lakehouse import plan, steps
from lakehouse.batch import DISCARDED, INTENT, PUBLISHED
from lakehouse.ledger import batches, rollbacks, taken_files
from lakehouse.naming import feed_table, table_sql
from lakehouse.plan import Attempt, NotReady
from lakehouse.publish import publish
from lakehouse.rollback import planned
from lakehouse.settling import settle
from tests.stack.foreign import DAY, Source, feed_replayed, lines
from tests.stack.foreign import task as one
from tests.stack.shop import in_session, interval

NEXT = DAY + timedelta(1)


def clean(source: Source, spark: Any, day: Any = DAY) -> steps.Handover | None:
    return source.shop.run(source.shop.silver, day, in_session(spark))


def written(source: Source, spark: Any, dataset: str, day: Any = DAY) -> tuple[steps.Handover, Attempt]:
    """A batch on its branch, audited, not published."""
    attempt, contract = Attempt(f"test/{uuid4().hex}", 1), source.shop.contract(dataset)
    handover = steps.write(contract, interval(day), attempt, in_session(spark))
    assert handover is not None
    return steps.audit(contract, handover, attempt, in_session(spark)), attempt


def test_an_input_whose_publish_is_not_confirmed_is_waited_for(tasks, spark):
    shop = tasks.shop
    tasks.run(spark, {"a.json": lines(one(1, 1))})
    shop.land(DAY, {"b.json": lines(one(2, 1))})
    handover, _ = written(tasks, spark, shop.bronze)
    batches.intend(handover.batch, handover.files)
    publish(handover.own, covers=interval(DAY))
    with pytest.raises(NotReady, match=f"{handover.batch.batch_id} is in {shop.bronze}, but not confirmed; run"):
        clean(tasks, spark)
    settle(shop.bronze)
    clean(tasks, spark)
    assert tasks.rows("id") == [(1,), (2,)]


def test_publishing_once_more_leaves_the_ledger_alone(tasks, spark):
    shop = tasks.shop
    tasks.run(spark, {"a.json": lines(one(1, 1))})
    (first,) = batches.published(shop.silver)
    handover = next(h for h in shop.handovers if h.batch.dataset == shop.silver)
    tasks.run(spark, {"b.json": lines(one(2, 1))}, NEXT)
    before = shop.state()
    again = Attempt(f"test/{uuid4().hex}", 2)
    steps.make_public(shop.contract(shop.silver), interval(DAY), handover, again, in_session(spark))
    assert [b.state for b in batches.published(shop.silver)] == [PUBLISHED] * 2
    assert batches.published(shop.silver)[-1] == first, "it is still the older one"
    assert shop.state() == before


def cut_after_the_feed(source: Source, spark: Any) -> tuple[steps.Handover, Attempt]:
    """A batch whose changes are in the feed's main, and nowhere else."""
    source.shop.land(DAY, {"a.json": lines(one(1, 1), one(2, 1))})
    source.shop.run(source.shop.bronze, DAY, in_session(spark))
    handover, attempt = written(source, spark, source.shop.silver)
    batches.intend(handover.batch)
    publish(next(w for w in handover.batch.writes if w.table == feed_table(source.shop.silver)))
    assert [b.state for b in batches.unsettled(source.shop.silver)] == [INTENT]
    return handover, attempt


def test_a_feed_is_cleared_of_what_was_given_up_though_a_batch_without_records_came_between(tasks, spark):
    cut_after_the_feed(tasks, spark)
    tasks.run(spark, {}, NEXT)
    assert {b.state for b in batches.recent(tasks.shop.silver)} == {DISCARDED, PUBLISHED}
    clean(tasks, spark)
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "a"), (2, "a")]


def test_a_batch_that_was_given_up_is_written_again_before_it_is_published(tasks, spark):
    handover, attempt = cut_after_the_feed(tasks, spark)
    tasks.run(spark, {"b.json": lines(one(9, 1, gone="yes"))}, NEXT)  # changes no row, and looks at the feed
    contract = tasks.shop.contract(tasks.shop.silver)
    steps.make_public(contract, interval(DAY), handover, attempt, in_session(spark))
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "a"), (2, "a")]


class Cut(Exception):
    """The process ends here."""


def cut_before(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The publish of a batch ends before that one of its tables is public."""
    left = iter(range(number))

    def publish_some(*given: Any, **named: Any) -> None:
        if next(left, None) is None:
            raise Cut
        publish(*given, **named)

    monkeypatch.setattr(steps, "publish", publish_some)


def cut_and_again(source: Source, spark: Any, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next day's publish in silver is cut; then it runs once more."""
    source.shop.run(source.shop.bronze, NEXT, in_session(spark))
    with monkeypatch.context() as patch:
        cut_before(number, patch)
        with pytest.raises(Cut):
            clean(source, spark, NEXT)
    clean(source, spark, NEXT)


# Between the table and its tombstones each time, the other cuts in the full tests.
@pytest.mark.parametrize("number", [*(pytest.param(n, marks=pytest.mark.full) for n in range(3)), 3])
def test_a_corrected_delete_brings_its_row_back_wherever_the_publish_was_cut(tasks, spark, monkeypatch, number):
    """Feed, own table, tombstones: of these a correction of the delete changes each, and quarantine with its record."""
    tasks.run(spark, {"r.json": lines(one(1, 1, "kept"), one(2, 1))})
    tasks.run(spark, {"a.json": lines(one(1, 5, gone="yes"))}, NEXT)
    assert tasks.rows("id, name") == [(2, "a")]
    tasks.shop.land(NEXT, {"a.json": lines(one(3, 5), {"id": 4, "at": 1})})
    cut_and_again(tasks, spark, number, monkeypatch)
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "kept"), (2, "a"), (3, "a")]
    assert tasks.rejected() == [("a.json", ["name.required"])]
    assert clean(tasks, spark, NEXT) is None


@pytest.mark.parametrize("number", [*(pytest.param(n, marks=pytest.mark.full) for n in range(2)), 2])
def test_a_delete_is_remembered_wherever_its_publish_was_cut(tasks, spark, monkeypatch, number):
    """An older version that comes after it stays deleted."""
    tasks.run(spark, {"r.json": lines(one(1, 1), one(2, 1))})
    tasks.shop.land(NEXT, {"a.json": lines(one(1, 5, gone="yes"))})
    cut_and_again(tasks, spark, number, monkeypatch)
    tasks.run(spark, {"b.json": lines(one(1, 3, "older"))}, NEXT + timedelta(1))
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(2, "a")]


def test_no_table_of_a_batch_is_public_where_another_of_them_cannot_be(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1))})
    tasks.shop.land(NEXT, {"b.json": lines(one(2, 1), one(1, 2, gone="yes"))})
    tasks.shop.run(tasks.shop.bronze, NEXT, in_session(spark))
    late, attempt = written(tasks, spark, tasks.shop.silver, NEXT)
    foreign(tasks, spark)
    before = tasks.shop.state()
    with pytest.raises(steps.MainMoved):
        steps._publish(interval(NEXT), late)
    assert tasks.shop.state() == before
    contract = tasks.shop.contract(tasks.shop.silver)
    steps.make_public(contract, interval(NEXT), late, attempt, in_session(spark))
    assert tasks.rows("id") == [(2,), (99,)]


def foreign(source: Source, spark: Any) -> None:
    """Somebody commits a row to silver's main."""
    name = table_sql(source.shop.silver)
    spark.read.table(name).limit(1).withColumn("id", F.lit(99).cast("bigint")).writeTo(name).append()


def test_the_late_publish_of_another_try_changes_nothing(tasks, spark):
    """Two runs wrote the same batch; it was published, and a file of it corrected, before the first of them goes on."""
    shop = tasks.shop
    shop.land(DAY, {"a.json": lines(one(1, 1, "old"))})
    late, _ = written(tasks, spark, shop.bronze)
    tasks.run(spark, {"a.json": lines(one(1, 1, "old"))})
    tasks.run(spark, {"a.json": lines(one(1, 2, "new"))})
    before, known = shop.state(), batches.settled(shop.bronze)
    with pytest.raises(steps.MainMoved, match="is published by another try"):
        steps._publish(interval(DAY), late)
    assert (shop.state(), batches.settled(shop.bronze)) == (before, known)
    assert not batches.intend(late.batch, late.files)
    assert clean(tasks, spark) is None
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "new")]


def test_a_correction_that_comes_while_silver_is_planned_is_in_it_or_waits(tasks, spark, monkeypatch):
    shop, looked = tasks.shop, []
    tasks.run(spark, {"a.json": lines(one(1, 1, "old"), one(2, 1))})
    tasks.mended("from: name}", "from: name, clean: trim}")
    shop.land(DAY, {"a.json": lines(one(1, 2, "new"), one(2, 1))})

    def corrections(dataset: str) -> Any:
        if not looked:
            looked.append(dataset)
            shop.run(shop.bronze, DAY, in_session(spark))
        return known(dataset)

    known = taken_files.corrections
    with monkeypatch.context() as patch:
        patch.setattr(taken_files, "corrections", corrections)
        clean(tasks, spark)
    assert looked == [shop.bronze]
    assert tasks.rows("id, name") == feed_replayed(tasks) == [(1, "new"), (2, "a")]


def test_an_input_that_changes_at_every_look_is_waited_for(tasks, spark, monkeypatch):
    tasks.run(spark, {"a.json": lines(one(1, 1))})
    tasks.mended("from: name}", "from: name, clean: trim}")
    monkeypatch.setattr(batches, "mark", lambda _: uuid4().hex)
    with pytest.raises(NotReady, match=r"bronze\..* changed each of 5 times that it was read; run this again"):
        clean(tasks, spark)


def test_silver_waits_for_the_end_of_its_inputs_rollback(tasks, spark):
    shop = tasks.shop
    tasks.run(spark, {"a.json": lines(one(1, 1))})
    first = next(h.own.head for h in shop.handovers if h.batch.dataset == shop.bronze)
    shop.land(DAY, {"b.json": lines(one(2, 1))})
    shop.run(shop.bronze, DAY, in_session(spark))
    number = rollbacks.intend(planned.plan(shop.contract(shop.bronze), str(first)), "ann", "a test")
    with pytest.raises(NotReady, match="is being rolled back"):
        plan.plan(shop.contract(shop.silver), interval(DAY), Attempt("run", 1))
    rollbacks.abandon(number)
    clean(tasks, spark)
    assert tasks.rows("id") == [(1,), (2,)]
