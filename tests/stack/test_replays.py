"""What somebody has replayed stays in the table, whatever is run again; and waits again where it is rejected anew."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from lakehouse.ledger import batches
from lakehouse.naming import quarantine_table
from lakehouse.query import run_sql
from tests.stack.foreign import DAY, Source, lines
from tests.stack.shop import in_session

NEXT = DAY + timedelta(1)
COLUMNS = """
  id:   {type: bigint, required: true, from: id}
  name: {type: string, required: true, from: name}
  at:   {type: timestamp, required: true, from: at}
  came: {type: timestamp, required: true, expr: _ingested_at}
  day:  {type: date, required: true, expr: _ingestion_date}
"""
DELIVERIES = {
    "changes": "key: [id]\nnewest_by: [at]\nlate_data: 3d",
    "events": "delivers: events\nduplicate_by: [id]\nnewest_by: [at]\nlate_data: 3d",
}


def thing(key: int, name: str = "a", at: str = "2026-01-01") -> dict[str, Any]:
    return {"id": key, "name": name, "at": f"{at}T10:00:00Z"}


def late(key: int, name: str = "a") -> dict[str, Any]:
    return thing(key, name, "2025-12-01")


@pytest.fixture(params=list(DELIVERIES))
def things(request, stack, spark, tmp_path) -> Iterator[Source]:
    """A thing that came in time, and one that came late and was replayed."""
    opened = Source(tmp_path, "json_lines", COLUMNS, DELIVERIES[request.param])
    opened.run(spark, {"a.json": lines(thing(1), late(2))})
    assert opened.rejected() == [("a.json", ["record.late"])]
    assert opened.resolve(spark, "replayed")["inserted"] == 1
    yield opened
    opened.shop.close()


@pytest.fixture
def changes(stack, tmp_path) -> Iterator[Source]:
    opened = Source(tmp_path, "json_lines", COLUMNS, DELIVERIES["changes"])
    yield opened
    opened.shop.close()


def names(source: Source) -> list[tuple[Any, ...]]:
    return source.rows("id, name")


def resolutions(source: Source) -> list[tuple[Any, ...]]:
    """What quarantine says of each record, and why it was rejected."""
    return sorted(run_sql(f"SELECT _reasons, _resolution FROM {quarantine_table(source.shop.silver)}")[1], key=str)


def clean(source: Source, spark: Any) -> None:
    source.shop.run(source.shop.silver, DAY, in_session(spark))


REPLAYED = (["record.late"], "replayed")


def test_a_late_record_stays_when_its_interval_runs_again_with_one_more_file(things, spark):
    things.run(spark, {"b.json": lines(thing(3))})
    assert names(things) == [(1, "a"), (2, "a"), (3, "a")]
    assert resolutions(things) == [REPLAYED]


def test_a_late_record_stays_when_its_interval_runs_again_under_another_contract(things, spark):
    things.mended("from: name}", "from: name, clean: upper}")
    clean(things, spark)
    assert names(things) == [(1, "A"), (2, "A")]
    assert resolutions(things) == [REPLAYED]


def test_a_late_record_that_nobody_replayed_stays_out(things, spark):
    things.run(spark, {"b.json": lines(late(4))})
    assert names(things) == [(1, "a"), (2, "a")]
    assert resolutions(things) == [REPLAYED, (["record.late"], None)]


@pytest.mark.parametrize(
    "again", [pytest.param(False, id="as it came", marks=pytest.mark.full), pytest.param(True, id="under its new name")]
)
def test_a_late_record_stays_when_its_file_is_known_by_another_name(things, spark, again):
    """The same bytes under two names; the first is corrected. Replayed is it before that, or after."""
    things.run(spark, {"b.json": lines(thing(1), late(2), late(5))})
    things.run(spark, {"c.json": lines(thing(1), late(2), late(5))})
    if again:
        things.run(spark, {"b.json": lines(thing(3))})
    things.resolve(spark, "replayed")
    things.run(spark, {"d.json": lines(thing(6))} if again else {"b.json": lines(thing(3))})
    assert [key for key, _ in names(things)] == [1, 2, 3, 5, *([6] if again else [])]
    assert {resolution for _, resolution in resolutions(things)} == {"replayed"}


def test_a_late_record_comes_back_when_a_correction_takes_the_newer_one_away(changes, spark):
    changes.run(spark, {"a.json": lines(thing(1), late(2, "old"))})
    changes.resolve(spark, "replayed")
    changes.run(spark, {"b.json": lines(thing(2, "new", "2026-01-02"))}, NEXT)
    assert names(changes) == [(1, "a"), (2, "new")]
    changes.run(spark, {"b.json": lines(thing(3, "b", "2026-01-02"))}, NEXT)
    assert names(changes) == [(1, "a"), (2, "old"), (3, "b")]


def test_a_replayed_record_that_a_stricter_contract_rejects_waits_again(things, spark):
    things.mended("from: name}", "from: name, accepted: [b]}")
    clean(things, spark)
    assert names(things) == []
    assert resolutions(things) == [(["name.accepted"], None), (["name.accepted"], None), REPLAYED]
    (newest, *_) = batches.published_in(things.shop.silver, things.shop.handovers[-1].batch.interval)
    assert newest.counts["quarantined"] == newest.counts["rows_in"] == 2
    things.mended("accepted: [b]", "accepted: [a, b]")
    assert things.resolve(spark, "replayed")["inserted"] == 2
    things.run(spark, {"b.json": lines(thing(3))})
    assert names(things) == [(1, "a"), (2, "a"), (3, "a")]
    assert {resolution for _, resolution in resolutions(things)} == {"replayed"}


def test_a_record_that_was_given_up_stays_so_when_it_is_rejected_again(changes, spark):
    changes.run(spark, {"a.json": lines(thing(1), late(2))})
    changes.resolve(spark, "discarded")
    changes.run(spark, {"b.json": lines(thing(3))})
    assert names(changes) == [(1, "a"), (3, "a")]
    assert resolutions(changes) == [(["record.late"], "discarded")]


def test_a_replayed_record_knows_when_it_came(things, spark):
    ((when,),) = run_sql(f"SELECT DISTINCT _ingested_at FROM {things.shop.bronze}")[1]
    assert things.rows("id, came, day") == [(1, when, date(2026, 1, 1)), (2, when, date(2026, 1, 1))]


def test_the_end_of_a_file_that_was_cut_off_is_no_record_however_whole_it_looks(changes, spark):
    packer = zlib.compressobj(wbits=31)
    cut = packer.compress(lines(thing(1), thing(2)).rstrip()) + packer.flush(zlib.Z_SYNC_FLUSH)
    changes.run(spark, {"cut.json.gz": cut})
    assert changes.rejected() == [("cut.json.gz", ["record.malformed"])]
    assert changes.resolve(spark, "replayed")["quarantined"] == 1
    assert names(changes) == [(1, "a")]
    assert resolutions(changes) == [(["record.malformed"], None)]


def test_an_event_that_is_replayed_wins_over_an_older_one_as_it_would_in_its_interval(stack, spark, tmp_path):
    """Of key 1 the newer was rejected, of key 2 the older: replayed, they give what a backfill would."""
    events = Source(tmp_path, "json_lines", COLUMNS, "delivers: events\nduplicate_by: [id]\nnewest_by: [at]")
    events.mended("from: name}", "from: name, accepted: [a]}")
    newer = "2026-01-02"
    came = (thing(1), thing(1, "b", newer), thing(2, "b"), thing(2, at=newer), thing(3, "b"))
    events.run(spark, {"a.json": lines(*came)})
    assert names(events) == [(1, "a"), (2, "a")]
    events.mended("accepted: [a]", "accepted: [a, b]")
    counts = events.resolve(spark, "replayed")
    assert [counts[name] for name in ("rows_in", "inserted", "updated", "duplicate")] == [3, 1, 1, 1]
    assert names(events) == [(1, "b"), (2, "a"), (3, "b")]
    events.shop.close()
