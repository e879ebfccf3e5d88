"""What carries an alert out, against a receiver in this process; no address may come to light."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO

import pytest
from typer.testing import CliRunner

from lakehouse.alerts import Alert, channels, trial
from lakehouse.alerts.routes import Route
from lakehouse.cli.alert import alert as app
from lakehouse.ledger.outbox import NotDelivered, Refused, tried
from lakehouse.settings import settings
from tests.receiver import SECRET, Receiver

NOW = datetime(2026, 11, 16, tzinfo=UTC)
OPENED = trial(NOW)
CLOSED = OPENED.model_copy(update={"event": "closed", "reason": "recovered", "closed_at": NOW})


@pytest.fixture
def receiver(monkeypatch, tmp_path) -> Iterator[Receiver]:
    """A receiver that is reached as it is (`webhook`), and through Apprise (`apprise`)."""
    found = Receiver()
    with found.up():
        listed = [
            {"name": "apprise", "url": f"json://127.0.0.1:{found.port}/{SECRET}"},
            {"name": "direct", "url": found.url},
        ]
        monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
        monkeypatch.setenv("LAKEHOUSE_ALERT_WEBHOOK", found.url)
        monkeypatch.setenv("LAKEHOUSE_ALERT_ROUTES", json.dumps(listed))
        settings.cache_clear()
        yield found
    monkeypatch.undo()
    settings.cache_clear()


@pytest.fixture
def written() -> Iterator[StringIO]:
    """All that reaches the root logger. (pytest's own capture asks also those loggers that tell nobody.)"""
    root, text = logging.getLogger(), StringIO()
    handler, level = logging.StreamHandler(text), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.setLevel(level)
    root.removeHandler(handler)


def send(channel: str, alert: Alert = OPENED) -> NotDelivered | None:
    return tried(channels()[channel], alert.model_dump(mode="json"))


@pytest.mark.parametrize("channel", ["webhook", "direct"])
def test_a_web_address_gets_our_json_with_a_key_that_a_repetition_shares(channel, receiver):
    assert send(channel) is None
    assert send(channel) is None
    assert receiver.taken == [OPENED.model_dump(mode="json")] * 2
    assert receiver.keys == [f"{OPENED.alert_id}/opened"] * 2


def test_a_service_gets_title_body_and_type_through_apprise(receiver):
    assert send("apprise") is None
    assert send("apprise", CLOSED) is None
    opened, closed = receiver.taken
    assert (opened["title"], opened["type"]) == ("[info] lakehouse test", "info")
    assert opened["message"].startswith(OPENED.summary)
    assert (closed["title"], closed["type"]) == ("[over] lakehouse test", "success")


@pytest.mark.parametrize("channel", ["webhook", "direct", "apprise"])
@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Refused), (404, Refused), (413, Refused), (408, NotDelivered), (429, NotDelivered), (503, NotDelivered)],
)
def test_an_answer_says_whether_the_message_or_the_channel_is_wrong(channel, status, kind, receiver):
    receiver.status = status
    error = send(channel)
    assert type(error) is kind
    assert str(error).endswith(f"answered {status}")


@pytest.mark.parametrize("channel", ["webhook", "direct", "apprise"])
@pytest.mark.parametrize("up", [True, False], ids=["refused", "unreachable"])
def test_no_address_comes_to_light(channel, up, receiver, written, capfd, monkeypatch):
    receiver.status = 403
    if not up:
        listed = json.loads(settings().alert_routes.get_secret_value())
        gone = [{**route, "url": route["url"].replace(str(receiver.port), "9")} for route in listed]
        monkeypatch.setenv("LAKEHOUSE_ALERT_ROUTES", json.dumps(gone))
        monkeypatch.setenv("LAKEHOUSE_ALERT_WEBHOOK", f"http://127.0.0.1:9/{SECRET}")
        settings.cache_clear()
    error = send(channel)
    assert error is not None
    assert ("cannot be reached" in str(error)) is not up
    assert SECRET not in "".join(
        (str(error), repr(error), repr(error.__cause__), written.getvalue(), *capfd.readouterr())
    )


@pytest.mark.parametrize("url", [f"nosuchservice://{SECRET}", f"pagerduty://{SECRET}"])
def test_a_url_that_apprise_cannot_use_is_told_by_its_kind_and_waits(url, written, capfd):
    from lakehouse.alerts.services import notify

    route = Route.model_validate({"name": "oncall", "url": url})
    with pytest.raises(NotDelivered, match=r"Apprise cannot use the URL of the alert route oncall \(\w+://…\)") as told:
        notify(route, OPENED)
    assert not isinstance(told.value, Refused)
    assert SECRET not in "".join((str(told.value), written.getvalue(), *capfd.readouterr()))


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("pagerduty://integration@key", "dedup"),
        ("pagerduty://integration@key?region=eu", "dedup"),
        ("opsgenie://key/#team", "alias"),
    ],
)
def test_a_service_with_incidents_opens_and_resolves_one_by_the_alerts_id(url, key):
    from lakehouse.alerts.services import service

    found = service(Route.model_validate({"name": "oncall", "url": url}), OPENED)
    assert (getattr(found, key), found.action) == (OPENED.alert_id, "map")
    assert found.overflow_mode == "truncate"


def test_what_a_url_says_of_incidents_and_length_wins():
    from lakehouse.alerts.services import service

    url = "pagerduty://integration@key?dedup=mine&action=trigger&overflow=split"
    found = service(Route.model_validate({"name": "oncall", "url": url}), OPENED)
    assert (found.dedup, found.action, found.overflow_mode) == ("mine", "trigger", "split")


@pytest.mark.parametrize(
    ("severity", "alert", "level"),
    [
        ("critical", OPENED, logging.ERROR),
        ("warning", OPENED, logging.WARNING),
        ("info", OPENED, logging.INFO),
        ("critical", CLOSED, logging.INFO),
    ],
)
def test_the_log_is_as_loud_as_the_alert_is_bad(severity, alert, level, caplog):
    caplog.set_level(logging.INFO)
    assert send("log", alert.model_copy(update={"severity": severity})) is None
    (record,) = [one for one in caplog.records if one.name == "lakehouse.alerts"]
    assert record.levelno == level
    assert OPENED.alert_id in record.message


def test_whatever_a_channel_raises_is_a_failure_without_its_text():
    def broken(_: dict[str, object]) -> None:
        raise ZeroDivisionError(SECRET)

    error = tried(broken, {})
    assert isinstance(error, Refused)
    assert str(error) == "the channel failed with ZeroDivisionError"


def test_apprise_is_imported_only_where_it_is_used():
    code = "import sys, lakehouse.alerts; sys.exit('apprise' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_tries_each_channel_and_tells_each_outcome(receiver):
    done = CliRunner().invoke(app, ["test"])
    assert done.exit_code == 0
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        ["channel", "outcome"],
        *[[name, "delivered"] for name in ("log", "webhook", "apprise", "direct")],
    ]
    assert len(receiver.taken) == 3


def test_the_command_fails_when_one_channel_does_and_can_try_one_alone(receiver):
    receiver.status = 503
    done = CliRunner().invoke(app, ["test"])
    assert done.exit_code == 1
    assert "log\tdelivered" in done.stdout
    assert "webhook\tthe alert webhook answered 503" in done.stdout
    assert "apprise\tthe alert route apprise (json) answered 503" in done.stdout
    assert CliRunner().invoke(app, ["test", "--route", "log"]).exit_code == 0


def test_the_command_fails_when_a_setting_is_wrong(monkeypatch):
    monkeypatch.setenv("LAKEHOUSE_ALERT_ROUTES", "[1]")
    settings.cache_clear()
    done = CliRunner().invoke(app, ["test"])
    assert done.exit_code == 1
    assert "LAKEHOUSE_ALERT_ROUTES[0]" in done.stderr
    monkeypatch.undo()
    settings.cache_clear()
