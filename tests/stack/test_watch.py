"""The watch on the real ledger and the real catalog, telling a real receiver."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakehouse import naming
from lakehouse.batch import PUBLISHED, Batch
from lakehouse.catalog import catalog
from lakehouse.intervals import Interval
from lakehouse.ledger import batches, heartbeats, maintenance_turns, mutes
from lakehouse.ledger import sla as ledger
from lakehouse.look import WATCH
from lakehouse.watch import board, look
from tests.receiver import SECRET
from tests.stack import tables
from tests.stack.harness import LAKEHOUSE, forget_connections, free_ports
from tests.stack.watched import DAY, LATE, SINCE, promise, publish

SILVER = """
dataset: {dataset}
description: A dataset of this test's own.
owner: commerce
start: 2026-01-01
reads: {reads}
delivers: events
columns:
  id: {{type: bigint, required: true, from: id}}
sla: {{ready_within: 1h}}
retention: {{snapshots: 7d}}
maintenance: {{tier: daily}}
"""
DOWN = pytest.mark.parametrize(
    ("setting", "address"),
    [
        ("LAKEHOUSE_CATALOG_URI", "http://127.0.0.1:{port}"),
        ("LAKEHOUSE_LEDGER_URL", "postgresql+psycopg2://a:b@127.0.0.1:{port}/x"),
    ],
    ids=["catalog", "ledger"],
)


def next_day(interval: Interval) -> Interval:
    return Interval(interval.end, interval.end + timedelta(days=1))


def test_a_miss_is_opened_once_told_once_and_closed_when_the_data_arrives(dataset, receiver):
    with receiver.up():
        assert look(LATE).opened == 1
        assert look(LATE + timedelta(minutes=1)).opened == 0
        publish(dataset, DAY)
        assert look(LATE + timedelta(hours=1)).closed == 1
        assert look(LATE + timedelta(hours=2)).closed == 0
    opening, closing = receiver.taken
    assert opening["alert_id"] == closing["alert_id"]
    assert (opening["event"], opening["dataset"], opening["late_seconds"]) == ("opened", dataset, 30 * 60)
    assert (closing["event"], closing["reason"], closing["late_seconds"]) == ("closed", "arrived", 90 * 60)
    assert ledger.open_misses() == []


def test_two_watches_that_see_the_same_miss_at_once_open_it_once(dataset, receiver):
    looks = []
    with receiver.up():
        threads = [threading.Thread(target=lambda: looks.append(look(LATE))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        look(LATE)  # delivers what the one that did not send has left
    assert sorted(one.opened for one in looks) == [0, 1]
    assert receiver.events == [("opened", "2026-02-01")]


def test_what_was_due_before_the_watch_began_is_silent(dataset, receiver):
    with receiver.up():
        look(SINCE + timedelta(hours=1))
    assert receiver.taken == []
    assert [(row.dataset, row.state) for row in board(SINCE + timedelta(hours=1)).verdicts] == [(dataset, "exempt")]


def test_a_changed_promise_is_in_force_from_then_on(dataset, receiver, tmp_path):
    promise(tmp_path, dataset, "30m")
    with receiver.up():
        changed = DAY.end + timedelta(minutes=45)  # after the day fell due by the new promise, before by the old one
        assert look(changed).opened == 0
        assert look(LATE).opened == 0
        assert look(LATE + timedelta(days=1)).opened == 1
    assert receiver.events == [("opened", "2026-02-02")]


def test_alerts_are_kept_in_order_and_tried_again_until_the_receiver_takes_them(dataset, receiver, caplog):
    caplog.set_level(logging.DEBUG)
    (down,) = look(LATE).backlog
    assert (down.messages, down.next_try_at) == (1, LATE + timedelta(seconds=5))
    publish(dataset, DAY)
    tomorrow = LATE + timedelta(days=1)
    (down,) = look(tomorrow).backlog
    assert (down.messages, down.next_try_at) == (3, tomorrow + timedelta(seconds=10))
    with receiver.up():
        assert look(tomorrow + timedelta(seconds=9)).backlog == (down,)  # not before its time
        receiver.status = 503
        (refused,) = look(tomorrow + timedelta(seconds=10)).backlog
        assert refused.error == "the alert webhook answered 503"
        receiver.status = 200
        assert look(tomorrow + timedelta(minutes=1)).backlog == ()
    first, *_ = receiver.events
    assert first == ("opened", "2026-02-01")
    assert sorted(receiver.events) == [("closed", "2026-02-01"), ("opened", "2026-02-01"), ("opened", "2026-02-02")]
    assert SECRET not in caplog.text + down.error + refused.error


def test_the_log_tells_the_alert_though_the_receiver_is_down(dataset, caplog):
    look(LATE)
    assert f"{dataset} of 2026-02-01 is 30 min late" in caplog.text


def beside(file: Path) -> None:
    """Another contract in the same folder, of a dataset that has not begun."""
    name = file.stem
    text = file.read_text().replace(f"bronze.{name}", f"bronze.{name}_2").replace("start: 2026", "start: 2099")
    file.with_name(f"{name}_2.yaml").write_text(text)


def test_a_deleted_contract_withdraws_its_miss_and_a_broken_one_does_not(dataset, receiver, tmp_path):
    file = tmp_path / "bronze" / f"{naming.short_name(dataset)}.yaml"
    beside(file)
    with receiver.up():
        look(LATE)
        file.write_text(file.read_text().replace("owner:", "onwer:"))
        broken = look(LATE + timedelta(minutes=1))
        assert broken.closed == 0
        assert "its contract is broken" in broken.problems[0]
        file.unlink()
        assert look(LATE + timedelta(minutes=2)).closed == 1
    assert receiver.taken[-1]["reason"] == "withdrawn"


def test_a_folder_without_contracts_withdraws_nothing(dataset, receiver, tmp_path):
    """It is out of sight, and soon back: what was late then is late still, and told no second time."""
    file = tmp_path / "bronze" / f"{naming.short_name(dataset)}.yaml"
    text = file.read_text()
    with receiver.up():
        look(LATE)
        file.unlink()
        empty = look(LATE + timedelta(minutes=1))
        assert empty.closed == 0
        assert any("there is no contract in" in problem for problem in empty.problems)
        file.write_text(text)
        look(LATE + timedelta(minutes=2))
        publish(dataset, DAY)
        look(LATE + timedelta(minutes=3))
    assert receiver.events == [("opened", "2026-02-01"), ("closed", "2026-02-01")]
    assert receiver.taken[-1]["reason"] == "arrived"


def test_the_board_shows_the_newest_interval_and_every_miss(dataset):
    look(LATE)
    publish(dataset, next_day(DAY))
    rows = board(LATE + timedelta(days=1)).verdicts
    assert [(row.interval, row.state) for row in rows] == [(next_day(DAY), "met"), (DAY, "missed")]
    assert rows[1].lag == timedelta(days=1, minutes=30)


def test_nobody_is_told_of_a_muted_dataset_until_its_mute_ends(dataset, receiver):
    mutes.mute(dataset, LATE + timedelta(hours=1), why="a move", by="test", now=SINCE)
    with receiver.up():
        assert look(LATE).opened == 0
        (miss,) = ledger.open_misses()
        assert (miss.dataset, miss.told_at) == (dataset, None)
        assert board(LATE).mutes[dataset].why == "a move"
        assert look(LATE + timedelta(hours=1, minutes=1)).opened == 1
        publish(dataset, DAY)
        assert look(LATE + timedelta(hours=2)).closed == 1
    assert receiver.events == [("opened", "2026-02-01"), ("closed", "2026-02-01")]


def test_what_arrives_while_it_is_muted_is_never_told(dataset, receiver):
    mutes.mute(dataset, LATE + timedelta(hours=1), why="a move", by="test", now=SINCE)
    with receiver.up():
        look(LATE)
        publish(dataset, DAY)
        assert look(LATE + timedelta(minutes=5)).closed == 0
        look(LATE + timedelta(hours=2))
    assert receiver.taken == []
    assert ledger.open_misses() == []


def test_a_stale_table_is_told_where_no_late_interval_is(dataset, receiver, tmp_path):
    month = Interval(datetime(2026, 1, 1, tzinfo=UTC), DAY.end)
    publish(dataset, month)
    promise(tmp_path, dataset, "5d, fresh_within: 30h")
    look(SINCE)
    stale = DAY.end + timedelta(hours=30, minutes=1)
    with receiver.up():
        assert look(stale - timedelta(minutes=2)).opened == 0
        assert look(stale).opened == 1
        publish(dataset, month, next_day(DAY))
        assert look(stale + timedelta(minutes=5)).closed == 1
    assert [alert["kind"] for alert in receiver.taken] == ["fresh", "fresh"]


def test_a_late_interval_that_makes_its_table_stale_is_told_once(dataset, receiver):
    publish(dataset, DAY)
    with receiver.up():
        assert look(DAY.end + timedelta(hours=27)).opened == 1
    assert [(alert["kind"], alert["interval_start"][:10]) for alert in receiver.taken] == [("ready", "2026-02-02")]
    assert [(miss.kind, bool(miss.told_at)) for miss in ledger.open_misses()] == [("ready", True), ("fresh", False)]


def test_whoever_looks_tells_that_the_watch_itself_is_silent_and_when_it_is_back(dataset, receiver):
    """The fixture's look was the watch's, at SINCE."""
    silent = SINCE + timedelta(hours=1)
    with receiver.up():
        assert look(SINCE + timedelta(seconds=30), by="once").problems == ()
        (told,) = look(silent, by="once").problems
        assert told.startswith("the watch has not looked since 2026-02-01 12:00:00 UTC")
        look(silent + timedelta(minutes=1), by="dag")
        assert look(silent + timedelta(minutes=2)).closed == 1
    assert [(a["event"], a["kind"], a["cause"]) for a in receiver.taken] == [
        ("opened", "heartbeat", "watch_down"),
        ("closed", "heartbeat", "watch_down"),
    ]


def test_while_the_catalog_is_down_the_ledger_tells_what_is_there_and_nothing_is_closed(
    dataset, receiver, nobody, monkeypatch
):
    with receiver.up(), monkeypatch.context() as patched:
        patched.setenv("LAKEHOUSE_CATALOG_URI", nobody)
        forget_connections()
        assert look(LATE).opened == 1
        assert look(LATE + timedelta(minutes=1)).closed == 0
    forget_connections()
    with receiver.up():
        publish(dataset, DAY)
        assert look(LATE + timedelta(minutes=2)).closed == 1
    assert [(a["event"], a["cause"], a["root"]) for a in receiver.taken] == [
        ("opened", "catalog_down", "catalog"),
        ("closed", "catalog_down", "catalog"),
    ]


def test_what_the_ledger_knows_as_published_is_not_missed_while_the_catalog_is_down(
    dataset, receiver, nobody, monkeypatch
):
    done = Batch(
        batch_id="b1",
        dataset=dataset,
        interval_start=DAY.start,
        interval_end=DAY.end,
        fingerprint="f",
        contract_version="v",
        run="r",
        attempt="a",
    )
    batches.intend(done)
    batches.settle("b1", PUBLISHED)
    with monkeypatch.context() as patched:
        patched.setenv("LAKEHOUSE_CATALOG_URI", nobody)
        forget_connections()
        assert look(LATE).opened == 0
    forget_connections()


def test_a_dataset_behind_a_late_one_is_recorded_and_not_told_and_has_time_to_catch_up(dataset, receiver, tmp_path):
    behind = dataset.replace("bronze", "silver")
    file = tmp_path / "silver" / f"{naming.short_name(behind)}.yaml"
    file.parent.mkdir()
    file.write_text(SILVER.format(dataset=behind, reads=dataset))
    tables.make(behind)
    look(SINCE)
    with receiver.up():
        assert look(LATE).opened == 1
        root, waits = ledger.open_misses()
        assert (waits.dataset, waits.behind, waits.cause) == (behind, root.alert_id, "upstream_late")
        publish(dataset, DAY)
        assert look(LATE + timedelta(hours=1)).opened == 0
        assert look(LATE + timedelta(hours=1, minutes=50)).opened == 0
        # As long as it has after its interval's end, it has after what it waited for has come.
        assert look(LATE + timedelta(hours=2, minutes=1)).opened == 1
    catalog().drop_table(behind)
    assert [(a["event"], a["dataset"], a["blocks"]) for a in receiver.taken] == [
        ("opened", dataset, [behind]),
        ("closed", dataset, [behind]),
        ("opened", behind, []),
    ]


def test_a_look_that_was_stopped_in_the_middle_does_not_keep_others_from_looking(dataset, receiver, monkeypatch):
    monkeypatch.setattr(ledger, "_LONGEST_LOOK", "1s")
    with receiver.up(), ledger.alone():  # and never goes on
        assert look(LATE).opened == 1
    assert receiver.events == [("opened", "2026-02-01")]


def test_a_schedule_that_changes_under_an_open_miss_stops_nobody(dataset, receiver, tmp_path):
    file = tmp_path / "bronze" / f"{naming.short_name(dataset)}.yaml"
    with receiver.up():
        look(LATE)
        file.write_text(f'{file.read_text().replace("%Y-%m-%d", "%Y-%m-%dT%H")}schedule: "@hourly"\n')
        assert look(LATE + timedelta(minutes=1)).problems == ()
        publish(dataset, Interval(DAY.start, LATE + timedelta(hours=1)))
        look(LATE + timedelta(minutes=2))
    assert receiver.events == [("opened", "2026-02-01"), ("closed", "2026-02-01")]


def test_what_one_service_holds_up_is_one_alert_the_gravest_and_each_may_catch_up(dataset, receiver, tmp_path):
    """Airflow is down here: it is the root of both."""
    other = f"{dataset}_2"
    promise(tmp_path, other, "1h, severity: critical")
    tables.make(other)
    look(SINCE)
    with receiver.up():
        assert look(LATE).opened == 1
        publish(other, DAY)
        assert look(LATE + timedelta(minutes=1)).opened == 0
    catalog().drop_table(other)
    first, closed = receiver.taken
    assert (first["dataset"], first["severity"], first["blocks"], first["owner"]) == (
        other,
        "critical",
        [dataset],
        None,
    )
    assert (closed["event"], closed["alert_id"]) == ("closed", first["alert_id"])


def test_a_promise_that_is_taken_away_and_made_again_says_nothing_of_the_time_between(dataset, receiver, tmp_path):
    file = tmp_path / "bronze" / f"{naming.short_name(dataset)}.yaml"
    kept = file.read_text()
    beside(file)
    file.unlink()
    with receiver.up():
        look(SINCE + timedelta(hours=1))
        file.write_text(kept)
        assert look(LATE + timedelta(days=20)).opened == 0
    assert receiver.taken == []


def lakehouse(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LAKEHOUSE, *arguments], env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_command_looks_once_and_shows_the_board(dataset):
    publish(dataset, Interval(DAY.start, datetime.now(UTC) + timedelta(days=2)))
    heartbeats.beat(WATCH, datetime.now(UTC), timedelta(minutes=1))
    maintenance_turns.begin(dataset)
    maintenance_turns.end(dataset, maintenance_turns.DONE)
    assert lakehouse("watch", "--once").returncode == 0
    (shown,) = json.loads(lakehouse("sla", "--json").stdout)
    assert (shown["dataset"], shown["state"]) == (dataset, "met")
    assert dataset in lakehouse("sla").stdout


@DOWN
def test_a_service_that_is_down_is_named_in_one_sentence(dataset, setting, address):
    (port,) = free_ports(1)
    done = lakehouse("watch", "--once", **{setting: address.format(port=port)})
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "does not answer" in done.stderr
    assert "Traceback" not in done.stderr


@DOWN
def test_the_service_goes_on_while_another_is_down_and_ends_on_sigterm(dataset, setting, address):
    (port,) = free_ports(1)
    env = {**os.environ, setting: address.format(port=port), "LAKEHOUSE_WATCH_SECONDS": "3600"}
    with subprocess.Popen([LAKEHOUSE, "watch"], env=env, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        next(line for line in service.stderr if "does not answer" in line and str(port) in line)
        assert service.poll() is None
        service.send_signal(signal.SIGTERM)
        assert service.wait(timeout=60) == 0
