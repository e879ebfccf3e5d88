"""Alerts through the outbox of the real ledger, to a real receiver."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg2
import pytest
from psycopg2 import sql
from typer.testing import CliRunner

from lakehouse import alerts
from lakehouse.alerts import Alert, Story, closing, opening
from lakehouse.causes import Cause
from lakehouse.cli.alert import alert as app
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval
from lakehouse.ledger import outbox
from lakehouse.ledger.database import engine
from lakehouse.ledger.outbox import Backlog
from lakehouse.settings import settings
from tests.receiver import SECRET, Receiver

NOW = datetime(2026, 11, 16, 2, 12, tzinfo=UTC)
DAY = Interval(datetime(2026, 11, 15, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC))
SetTo = Callable[..., None]


@pytest.fixture
def set_to(stack, monkeypatch) -> Iterator[SetTo]:
    """Sets this process's settings of alerts, over a ledger of the test's own."""
    name = f"alerts_{uuid4().hex[:8]}"
    server = {"host": "127.0.0.1", "port": stack.postgres_port, "user": "postgres", "dbname": "postgres"}
    connection = psycopg2.connect(**server, password=stack.postgres_password.get_secret_value())
    connection.autocommit = True
    address = stack.ledger_url.get_secret_value().rpartition("/")[0] + f"/{name}"

    def change(webhook: str = "", routes: list[dict[str, object]] | None = None) -> None:
        monkeypatch.setenv("LAKEHOUSE_LEDGER_URL", address)
        monkeypatch.setenv("LAKEHOUSE_ALERT_WEBHOOK", webhook)
        monkeypatch.setenv("LAKEHOUSE_ALERT_ROUTES", json.dumps(routes or []))
        settings.cache_clear()

    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE DATABASE {} OWNER lakehouse").format(sql.Identifier(name)))
        change()
        engine.cache_clear()
        yield change
        engine().dispose()
        cursor.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    connection.close()
    monkeypatch.undo()
    settings.cache_clear()
    engine.cache_clear()


@pytest.fixture
def receiver(set_to) -> Iterator[Receiver]:
    """The receiver that the webhook leads to."""
    found = Receiver()
    with found.up():
        set_to(found.url)
        yield found


def story(alert_id: str, **given: object) -> Story:
    base = {
        "kind": "ready",
        "severity": "critical",
        "due": NOW - timedelta(minutes=12),
        "opened_at": NOW,
        "dataset": "silver.orders",
        "interval": DAY,
        "cause": Cause.GATE_FAILED,
        "detail": "unique(order_id): 3 values occur more than once",
    }
    return Story(alert_id, **{**base, **given})


def put(*made: Alert) -> None:
    """Into the outbox, as whoever finds out that it is true would do."""
    with engine().begin() as connection:
        for alert in made:
            outbox.add(connection, alerts.messages(alert), NOW)


def opened(alert_id: str, **given: object) -> Alert:
    return opening(story(alert_id, **given))


def closed(alert_id: str, **given: object) -> Alert:
    return closing(story(alert_id, **given), "arrived", NOW)


def taken(receiver: Receiver) -> list[str]:
    return [f"{alert['alert_id']} {alert['event']}" for alert in receiver.taken]


def waiting(backlog: list[Backlog]) -> dict[str, int]:
    return {one.channel: one.messages for one in backlog}


def deliveries() -> dict[str, str]:
    """How each event fared in the webhook's channel."""
    return {
        f"{event.payload['alert_id']} {event.payload['event']}": delivery.state
        for event in outbox.recent(100)
        for delivery in event.deliveries
        if delivery.channel == "webhook"
    }


def test_an_alert_and_its_recovery_arrive_once_and_whole(receiver, set_to):
    put(opened("a"))
    assert alerts.deliver(NOW) == []
    put(closed("a"))
    assert alerts.deliver(NOW) == alerts.deliver(NOW + timedelta(days=2)) == []
    assert receiver.taken == [opened("a").model_dump(mode="json"), closed("a").model_dump(mode="json")]
    assert receiver.keys == ["a/opened", "a/closed"]


def test_a_route_gets_what_it_is_for_as_json_or_through_apprise(receiver, set_to):
    pages = {"name": "pages", "url": receiver.url, "severities": ["critical"]}
    chat = {"name": "chat", "url": f"json://127.0.0.1:{receiver.port}/", "severities": ["warning"]}
    set_to(routes=[pages, chat])
    put(opened("a"), opened("b", severity="warning"), opened("c", severity="info"))
    assert alerts.deliver(NOW) == []
    message, page = sorted(receiver.taken, key=lambda taken: "alert_id" in taken)
    assert page == opened("a").model_dump(mode="json")
    assert message["title"] == "[warning] silver.orders"
    assert "unique(order_id): 3 values" in message["message"]


def test_who_heard_of_the_opening_hears_of_the_end_whatever_the_settings_say_then(receiver, set_to):
    first = {"name": "first", "url": receiver.url, "severities": ["critical"]}
    set_to(routes=[first])
    put(opened("a"))
    set_to(routes=[{**first, "severities": ["info"]}, {"name": "second", "url": receiver.url}])
    put(closed("a"))
    assert alerts.deliver(NOW) == []
    assert taken(receiver) == ["a opened", "a closed"]


def test_a_channel_that_is_down_gets_everything_in_order_when_it_is_back(receiver):
    receiver.status = 503
    put(opened("a"), opened("b"))
    (down,) = alerts.deliver(NOW)
    assert down == Backlog("webhook", 2, NOW + timedelta(seconds=5), "the alert webhook answered 503")
    put(closed("a"))
    later = NOW + timedelta(days=3)
    for minutes in range(30):
        assert waiting(alerts.deliver(later + timedelta(minutes=10 * minutes))) == {"webhook": 3}
    receiver.status = 200
    assert alerts.deliver(later + timedelta(days=1)) == []
    assert taken(receiver) == ["a opened", "b opened", "a closed"]


def test_a_message_that_is_refused_holds_up_its_own_alert_only(receiver):
    receiver.status = 400
    put(opened("a"), closed("a"))
    alerts.deliver(NOW)
    receiver.status = 200
    put(opened("b"))
    assert waiting(alerts.deliver(NOW + timedelta(seconds=1))) == {"webhook": 2}
    assert taken(receiver) == ["b opened"]
    assert alerts.deliver(NOW + timedelta(seconds=5)) == []
    assert taken(receiver) == ["b opened", "a opened", "a closed"]


def refuse_for_two_days(receiver: Receiver) -> None:
    receiver.status = 400
    for hours in range(48):
        alerts.deliver(NOW + timedelta(hours=hours))


def test_a_message_that_is_refused_while_others_pass_is_set_aside_and_told(receiver, caplog):
    receiver.status = 400
    put(opened("a"), closed("a"))
    alerts.deliver(NOW)
    put(opened("b"))
    receiver.status = 200
    alerts.deliver(NOW + timedelta(seconds=1))
    refuse_for_two_days(receiver)
    assert outbox.backlog() == []
    assert deliveries() == {"a opened": "set aside", "a closed": "set aside", "b opened": "delivered"}
    assert "alert a is set aside: webhook did not take it" in caplog.text
    assert "the alert webhook answered 400" in caplog.text
    assert SECRET not in caplog.text


def test_what_is_set_aside_is_followed_by_no_recovery(receiver):
    receiver.status = 400
    put(opened("a"))
    alerts.deliver(NOW)
    put(opened("b"))
    receiver.status = 200
    alerts.deliver(NOW + timedelta(seconds=1))
    refuse_for_two_days(receiver)
    put(closed("a"))
    assert deliveries() == {"a opened": "set aside", "b opened": "delivered"}


def test_a_channel_that_refuses_everything_keeps_everything_until_it_is_mended(receiver):
    put(opened("a"), opened("b"), closed("a"))
    refuse_for_two_days(receiver)
    assert waiting(outbox.backlog()) == {"webhook": 3}
    receiver.status = 200
    assert alerts.deliver(NOW + timedelta(days=3)) == []
    assert sorted(taken(receiver)) == ["a closed", "a opened", "b opened"]
    assert taken(receiver).index("a opened") < taken(receiver).index("a closed")


def test_a_message_that_fails_without_a_word_lets_others_pass_after_a_day_and_is_set_aside(set_to):
    said: list[str] = []

    def send(payload: dict[str, object]) -> None:
        if payload["alert_id"] == "a":
            raise outbox.NotDelivered("no")
        said.append(str(payload["alert_id"]))

    put(opened("a"), opened("b"))
    for hours in range(24):
        assert outbox.send_next("log", send, NOW + timedelta(hours=hours))
        assert not outbox.send_next("log", send, NOW + timedelta(hours=hours))
    assert said == []
    for hours in (25, 26, 27):
        while outbox.send_next("log", send, NOW + timedelta(hours=hours)):
            pass
    assert (said, outbox.backlog()) == (["b"], [])
    assert [event.deliveries[0].state for event in outbox.recent(2)] == ["delivered", "set aside"]


def test_a_channel_that_raises_anything_is_tried_again_and_kills_nobody(set_to):
    said: list[str] = []

    def send(payload: dict[str, object]) -> None:
        said.append(str(payload["alert_id"]))
        if len(said) < 3:
            raise ZeroDivisionError(SECRET)

    put(opened("a"))
    assert outbox.send_next("log", send, NOW)
    assert not outbox.send_next("log", send, NOW)
    (failed,) = outbox.backlog()
    assert failed.error == "the channel failed with ZeroDivisionError"
    assert outbox.send_next("log", send, NOW + timedelta(minutes=1))
    assert outbox.send_next("log", send, NOW + timedelta(minutes=2))
    assert (said, outbox.backlog()) == (["a"] * 3, [])


def test_what_waits_for_a_route_that_is_gone_stays_until_it_is_back_or_dropped(receiver, set_to):
    receiver.status = 503
    set_to(routes=[{"name": "old", "url": receiver.url}])
    put(opened("a"))
    alerts.deliver(NOW)
    with pytest.raises(LakehouseError, match="old is in use"):
        alerts.drop("old", NOW)
    set_to()
    put(opened("b"), closed("a"))
    assert waiting(alerts.deliver(NOW + timedelta(hours=1))) == {"old": 2}
    dropped = CliRunner().invoke(app, ["drop", "old"])
    assert dropped.stdout == "2 message(s) to old dropped\n"
    assert outbox.backlog() == []
    assert taken(receiver) == []


def test_the_list_shows_who_was_told_what_after_how_many_tries(receiver):
    receiver.status = 503
    put(opened("a"))
    alerts.deliver(NOW)
    alerts.deliver(NOW + timedelta(minutes=1))
    (event,) = json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)
    assert event["alert"] == opened("a").model_dump(mode="json")
    log, webhook = event["deliveries"]
    assert (log["channel"], log["state"], log["tries"], log["error"]) == ("log", "delivered", 1, "")
    assert webhook == {
        "channel": "webhook",
        "state": "waiting",
        "tries": 2,
        "error": "the alert webhook answered 503",
        "at": (NOW + timedelta(minutes=1, seconds=10)).isoformat(),
    }
    shown = CliRunner().invoke(app, ["list"]).stdout
    assert "silver.orders of 2026-11-15 is 12 min late" in shown
    assert "the alert webhook answered 503" in shown


def test_the_list_is_of_the_newest_events_with_all_their_channels(receiver):
    put(opened("a"), opened("b"))
    put(closed("a"))
    found = [(e.payload["alert_id"], e.payload["event"], len(e.deliveries)) for e in outbox.recent(2)]
    assert found == [("a", "closed", 2), ("b", "opened", 2)]
