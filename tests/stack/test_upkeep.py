"""Worn tables and late maintenance on the real ledger: opened once, told once, closed when it is over; and pruned."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from lakehouse.contracts.keeping import Maintenance, Retention
from lakehouse.health.model import TableHealth
from lakehouse.health.score import Concern, score
from lakehouse.ledger import health, maintenance_turns, mutes, outbox, troubles
from lakehouse.ledger.database import engine
from lakehouse.ledger.database import health as measures
from lakehouse.ledger.database import outbox as messages
from lakehouse.ledger.pruning import prune
from lakehouse.watch import look
from tests.receiver import Receiver
from tests.stack.watched import DAY, SINCE, publish

EARLY = SINCE + timedelta(hours=1)  # no interval is due
MINUTE = timedelta(minutes=1)
SMALL = Concern(kind="small_files", told="80% of 120 files are small")
DELETES = Concern(kind="deletes", told="2.0 GB of deletes are applied at every read")


def measure(name: str, *concerns: Concern, files: int = 1) -> None:
    found = TableHealth(files=files, bytes=1, rows=1, delete_files=0, snapshots=1, oldest_snapshot_ms=None)
    judged = score(found, Maintenance(), Retention.model_validate({"snapshots": "7d"}), datetime.now(UTC))
    health.record(name, found, judged, concerns)


def heard(by: Receiver) -> list[tuple[str, str, str]]:
    return [(one["event"], one["kind"], one["detail"]) for one in by.taken]


def test_each_concern_is_told_once_and_its_end_too(dataset, receiver):
    with receiver.up():
        measure(dataset, SMALL, DELETES)
        assert look(EARLY).opened == 2
        assert look(EARLY + MINUTE).opened == 0
        measure(dataset, DELETES)
        assert look(EARLY + 2 * MINUTE).closed == 1
        measure(dataset, SMALL, DELETES)
        assert look(EARLY + 3 * MINUTE).opened == 1, "it has come again"
    assert heard(receiver) == [
        ("opened", "health", DELETES.told),
        ("opened", "health", SMALL.told),
        ("closed", "health", SMALL.told),
        ("opened", "health", SMALL.told),
    ]
    first, again = (one for one in receiver.taken if one["event"] == "opened" and one["detail"] == SMALL.told)
    assert first["alert_id"] != again["alert_id"]
    assert (first["cause"], first["owner"], first["severity"]) == ("table_worn", "commerce", "warning")
    assert first["command"] == f"lakehouse maintain {dataset} --dry-run"
    assert first["summary"].startswith(f"{dataset} is worn")


def test_nobody_is_told_of_what_is_muted_or_what_maintenance_is_about_to_mend(dataset, receiver):
    with receiver.up():
        maintenance_turns.begin(dataset)
        measure(dataset, SMALL)
        assert look(EARLY).opened == 0
        assert troubles.still_open() == []
        maintenance_turns.end(dataset, "failed: Spark does not answer")
        mutes.mute(dataset, EARLY + timedelta(hours=1), why="we know", by="a test", now=EARLY)
        assert look(EARLY + MINUTE).opened == 0
        (muted,) = troubles.still_open()
        assert muted.told_at is None
        mutes.unmute(dataset, EARLY + 2 * MINUTE)
        assert look(EARLY + 3 * MINUTE).opened == 1
    assert heard(receiver) == [("opened", "health", SMALL.told)]


def test_maintenance_that_is_late_is_told_with_how_it_ended_and_is_over_when_it_is_done(dataset, receiver):
    publish(dataset, DAY)
    with receiver.up():
        look(SINCE + timedelta(hours=50))
        assert "maintenance" not in {one["kind"] for one in receiver.taken}
        maintenance_turns.begin(dataset)
        maintenance_turns.end(dataset, "put off: it is being written by a run")
        look(SINCE + timedelta(hours=50, minutes=1))
        look(SINCE + timedelta(hours=50, minutes=2))
        maintenance_turns.begin(dataset)
        maintenance_turns.end(dataset, maintenance_turns.DONE)
        look(SINCE + timedelta(hours=50, minutes=3))
    told = [one for one in heard(receiver) if one[1] == "maintenance"]
    detail = "put off: it is being written by a run"
    assert told == [("opened", "maintenance", detail), ("closed", "maintenance", detail)]
    late = next(one for one in receiver.taken if one["kind"] == "maintenance")
    assert (late["cause"], late["dataset"], late["late_seconds"]) == ("maintenance_late", dataset, 60)


def count(table: Any) -> int:
    with engine().connect() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


@pytest.fixture
def aged(dataset, receiver) -> str:
    """Three measurements, one trouble that is over and one that is open: all of long ago."""
    with receiver.up():
        measure(dataset, SMALL, DELETES)
        look(EARLY)
        measure(dataset, DELETES)
        measure(dataset, DELETES)
        look(EARLY + MINUTE)
    with engine().begin() as connection:
        connection.execute(update(measures).values(at=EARLY))
    return dataset


def test_the_ledger_forgets_what_is_old_and_over_and_keeps_what_is_open(aged):
    assert Counter(event.payload["event"] for event in outbox.recent(10)) == {"opened": 2, "closed": 1}
    assert prune(SINCE) == {"health": 0, "outbox": 0, "troubles": 0}, "nothing is that old"
    gone = prune(EARLY + timedelta(days=400))
    assert gone == {"health": 2, "outbox": 4, "troubles": 1}, "of two channels each"
    assert count(measures) == 1, "the newest of each table stays"
    assert {event.payload["detail"] for event in outbox.recent(10)} == {DELETES.told}
    assert outbox.channels_of(troubles.still_open()[0].alert_id) == ["log", "webhook"], "who hears of its end"


def test_a_message_that_has_not_left_is_never_forgotten(aged):
    with engine().begin() as connection:
        connection.execute(update(messages).where(messages.c.channel == "webhook").values(delivered_at=None))
    assert prune(EARLY + timedelta(days=400))["outbox"] == 0
