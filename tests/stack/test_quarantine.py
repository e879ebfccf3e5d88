"""Rejected records: counted, shown, replayed once, given up; and a batch of too many of them is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakehouse import quarantine, steps
from lakehouse.batch import TableWrite
from lakehouse.jobs import Chosen
from lakehouse.ledger import batches, leases
from lakehouse.naming import feed_table, quarantine_table
from lakehouse.plan import Attempt
from lakehouse.query import run_sql
from tests.stack.foreign import LAYERS, lines
from tests.stack.shop import Shop, in_session

DAY, NOON = date(2026, 1, 1), "2026-01-01T12:00:00Z"
NEXT = DAY + timedelta(1)
BRONZE = """
dataset: bronze.things_{suffix}
description: Things.
owner: team
start: 2026-01-01
source: {{kind: files, path: "things_{suffix}/{{interval:%Y-%m-%d}}/"}}
"""
SILVER = """
dataset: silver.things_{suffix}
description: Things.
owner: team
start: 2026-01-01
reads: bronze.things_{suffix}
columns:
  thing_id: {{type: bigint, required: true, from: id}}
  colour:   {{type: string, accepted: [{accepted}], from: colour}}
  seen_at:  {{type: timestamp, required: true, from: at}}
{delivery}
"""
DELIVERIES = {
    "changes": "key: [thing_id]\nnewest_by: [seen_at]\nchange_feed: true",
    "events": "delivers: events\nduplicate_by: [thing_id]\npartition_by: [day(seen_at)]",
}


def things(folder: Path, delivery: str) -> Shop:
    """A dataset of a test's own, whose contract takes red and blue."""
    shop = Shop(folder, f"t{uuid4().hex[:6]}", "things")
    for layer in ("bronze", "silver"):
        (folder / layer).mkdir()
    (folder / "bronze" / f"things_{shop.suffix}.yaml").write_text(BRONZE.format(suffix=shop.suffix))
    (folder / "layers.yaml").write_text(LAYERS)
    accept(shop, delivery, "red, blue")
    return shop


def accept(shop: Shop, delivery: str, colours: str) -> None:
    text = SILVER.format(suffix=shop.suffix, accepted=colours, delivery=DELIVERIES[delivery])
    (shop.folder / "silver" / f"things_{shop.suffix}.yaml").write_text(text)


def deliver(shop: Shop, *colours: str) -> None:
    records = [{"id": n, "colour": colour, "at": "2026-01-01T10:00:00Z"} for n, colour in enumerate(colours)]
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    shop.land(DAY, {"part.jsonl": data})


@pytest.fixture(params=list(DELIVERIES))
def shop(request, stack, spark, tmp_path) -> Iterator[Shop]:
    """Ten things, of which the contract rejects two."""
    opened = things(tmp_path, request.param)
    deliver(opened, *["red"] * 8, "green", "violet")
    for dataset in opened.datasets:
        opened.run(dataset, DAY, in_session(spark))
    yield opened
    opened.close()


def resolve(shop: Shop, spark: Any, resolution: Any, **which: Any) -> dict[str, int]:
    attempt = Attempt(f"test/{uuid4().hex}", 1)
    chosen = Chosen(resolution=resolution, by="ann", why="mended", **which)
    steps.take_lease(shop.silver, attempt)
    try:
        return quarantine.resolve(shop.contract(shop.silver), chosen, attempt, in_session(spark))
    finally:
        leases.release(shop.silver, attempt.run)


def rows(shop: Shop) -> list[tuple[Any, ...]]:
    return sorted(run_sql(f"SELECT thing_id, colour FROM {shop.silver}")[1])


def kept(shop: Shop) -> list[tuple[Any, ...]]:
    columns = "_source_offset, _reasons, _resolution, _resolved_by, _resolved_why, _resolved_at IS NOT NULL"
    return sorted(run_sql(f"SELECT {columns} FROM {quarantine_table(shop.silver)}")[1])


WAITING = (None, None, None, False)
REPLAYED = ("replayed", "ann", "mended", True)


def test_a_mended_contract_takes_rejected_records_in_once(shop, spark):
    delivery = "events" if not shop.contract(shop.silver).key else "changes"
    assert [row[:3] for row in kept(shop)] == [(8, ["colour.accepted"], None), (9, ["colour.accepted"], None)]
    accept(shop, delivery, "red, blue, green")
    counts = resolve(shop, spark, "replayed")
    assert (counts["rows_in"], counts["inserted"], counts["quarantined"]) == (2, 1, 1)
    assert (8, "green") in rows(shop)
    assert len(rows(shop)) == 9
    assert [row[2:] for row in kept(shop)] == [REPLAYED, WAITING]

    assert resolve(shop, spark, "replayed", reason="colour.type")["rows_in"] == 0
    assert resolve(shop, spark, "replayed")["inserted"] == 0
    shop.run(shop.silver, DAY, in_session(spark))
    assert len(rows(shop)) == 9
    assert [row[2:] for row in kept(shop)] == [REPLAYED, WAITING]
    assert shop.run(shop.silver, DAY, in_session(spark)) is None


def test_records_that_are_given_up_stay_and_say_so(shop, spark):
    assert resolve(shop, spark, "discarded", reason="colour.accepted") == {"rows_in": 2, "quarantined": 2}
    assert [row[2:] for row in kept(shop)] == [("discarded", "ann", "mended", True)] * 2
    assert resolve(shop, spark, "discarded")["rows_in"] == 0
    assert len(rows(shop)) == 8
    assert quarantine.summary(shop.silver)[1] == []


class Cut(Exception):
    """The replay ends here."""


def cut_after(count: int) -> Callable[[TableWrite], None]:
    """A publish that works so often, and no more."""
    published, done = steps.publish, iter(range(count))

    def publish(write: TableWrite) -> None:
        if next(done, None) is None:
            raise Cut
        published(write)

    return publish


def from_feed(shop: Shop) -> list[tuple[Any, ...]]:
    """The rows that the change feed leads to: those that came once more than they went."""
    left, feed = "sum(CASE WHEN _change IN ('insert', 'update_after') THEN 1 ELSE -1 END)", feed_table(shop.silver)
    found = run_sql(f"SELECT thing_id, colour, {left} FROM {feed} GROUP BY ALL HAVING {left} <> 0")[1]
    assert {row[2] for row in found} == {1}
    return sorted(row[:2] for row in found)


def test_a_replay_that_is_cut_at_each_of_its_publishes_in_turn_brings_its_row_once(shop, spark, monkeypatch):
    with_feed = shop.contract(shop.silver).change_feed
    accept(shop, "changes" if with_feed else "events", "red, blue, green")
    for publishes in range(3 if with_feed else 2):
        with monkeypatch.context() as patch:
            patch.setattr(steps, "publish", cut_after(publishes))
            with pytest.raises(Cut):
                resolve(shop, spark, "replayed")
        assert [row[2:] for row in kept(shop)] == [WAITING, WAITING]
    counts = resolve(shop, spark, "replayed")
    assert (counts["rows_in"], counts["inserted"], counts["quarantined"]) == (1, 0, 1), "the first was settled by then"
    assert rows(shop) == [*((n, "red") for n in range(8)), (8, "green")]
    assert not with_feed or from_feed(shop) == rows(shop)
    assert [row[2:] for row in kept(shop)] == [REPLAYED, WAITING]
    assert batches.unsettled(shop.silver) == []


@pytest.mark.parametrize("shop", ["changes"], indirect=True)
def test_where_the_mark_is_published_before_the_table_a_replay_that_is_cut_loses_its_row(shop, spark, monkeypatch):
    monkeypatch.setattr(steps, "quarantine_table", lambda _: "not known to be the mark")
    with pytest.raises(AssertionError):
        test_a_replay_that_is_cut_at_each_of_its_publishes_in_turn_brings_its_row_once(shop, spark, monkeypatch)
    assert resolve(shop, spark, "replayed")["inserted"] == 0
    assert (8, "green") not in rows(shop)


# In the order of their names the reasons are in another order than by their numbers.
REJECTED = [
    {"id": "x", "colour": "green", "at": NOON},
    *[{"id": "x", "colour": "red", "at": NOON}] * 3,
    {"id": 90, "colour": "green", "at": NOON},
    *[{"id": 91, "colour": "red"}] * 3,
    b"nothing\n",
]


def good(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": first + n, "colour": "red", "at": NOON} for n in range(count)]


@pytest.fixture
def after_a_day(stack, spark, tmp_path) -> Iterator[Shop]:
    """A day is published of which as much is rejected as may be, 8 of 40; of the next one a record more is wrong."""
    opened = things(tmp_path, "changes")
    opened.land(DAY, {"part.jsonl": lines(*good(0, 32), *REJECTED[:8])})
    opened.land(NEXT, {"part.jsonl": lines(*good(50, 31), *REJECTED)})
    for dataset, day in ((opened.bronze, DAY), (opened.silver, DAY), (opened.bronze, NEXT)):
        opened.run(dataset, day, in_session(spark))
    yield opened
    opened.close()


def test_a_batch_of_too_many_rejected_records_leaves_main_as_it_was_and_tells_its_top_reasons(after_a_day, spark):
    shop, before = after_a_day, after_a_day.state()
    assert shop.handovers[1].batch.counts["quarantined"] == 8
    told = "9 of 40 records are rejected, more than most_rejected: 20%; most often "
    with pytest.raises(steps.GateFailed, match=told + "thing_id.type 4, seen_at.required 3, colour.accepted 2(;|$)"):
        shop.run(shop.silver, NEXT, in_session(spark))
    assert shop.state() == before
    assert rows(shop) == [(n, "red") for n in range(32)]
    assert leases.holder(shop.silver) is None

    accept(shop, "changes", "red, blue, green")
    done = shop.run(shop.silver, NEXT, in_session(spark))
    assert done is not None
    assert (done.batch.counts["inserted"], done.batch.counts["quarantined"]) == (32, 8)
    assert len(rows(shop)) == 64
