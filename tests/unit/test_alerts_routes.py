"""Who is told, by the settings; and what is said of a setting that is wrong."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

from lakehouse.alerts import channels, problems, trial
from lakehouse.alerts.routes import Route, routes
from lakehouse.settings import ROOT, settings

SECRET = "hush-3f9a"
ONCALL = {"name": "oncall", "url": f"pagerduty://{SECRET}@key", "severities": ["critical"], "owners": ["commerce"]}
CHAT = {"name": "chat", "url": f"slack://{SECRET}"}


@pytest.fixture
def set_to(monkeypatch):
    """Sets the alert settings of this process."""

    def change(given: object = None, webhook: str = "") -> None:
        text = given if isinstance(given, str) else json.dumps(given or [])
        monkeypatch.setenv("LAKEHOUSE_ALERT_ROUTES", text)
        monkeypatch.setenv("LAKEHOUSE_ALERT_WEBHOOK", webhook)
        settings.cache_clear()

    yield change
    monkeypatch.undo()
    settings.cache_clear()


def alert(severity: str, owner: str | None):
    return trial(datetime(2026, 1, 1, tzinfo=UTC)).model_copy(update={"severity": severity, "owner": owner})


def test_without_settings_there_is_the_log(set_to):
    set_to()
    assert (list(channels()), problems()) == (["log"], ())


def test_the_webhook_and_each_route_is_a_channel(set_to):
    set_to([ONCALL, CHAT], webhook="https://example.org/x")
    assert (list(channels()), problems()) == (["log", "webhook", "oncall", "chat"], ())


@pytest.mark.parametrize(
    ("severity", "owner", "takes"),
    [
        ("critical", "commerce", True),
        ("warning", "commerce", False),
        ("critical", "finance", False),
        ("critical", None, True),  # nobody's, such as a silent watch, is everybody's
        ("info", None, False),
    ],
)
def test_a_route_takes_its_severities_and_owners(severity, owner, takes):
    assert Route.model_validate(ONCALL).takes(alert(severity, owner)) is takes
    assert Route.model_validate(CHAT).takes(alert(severity, owner))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({**ONCALL, "severities": ["urgent"]}, "[0].severities[0]: must be 'critical', 'warning' or 'info'"),
        ({**ONCALL, "severity": "critical"}, "[0].severity: unknown field; there are name, url, severities, owners"),
        ({"name": "x"}, "[0].url: is missing; add it"),
        ({**ONCALL, "url": SECRET}, "[0].url: must be a URL, such as https://… or slack://…"),
        ({**ONCALL, "url": ["pagerduty://" + SECRET]}, "[0].url: must be a valid string"),
        ({**ONCALL, "name": "log"}, "[0].name: must be another than log and webhook"),
        ({**ONCALL, "name": f"a {SECRET}"}, "[0].name: must be of letters, digits, - and _"),
        ({**ONCALL, f"slack://{SECRET}": 1}, "[0].…: unknown field"),
        (f"pagerduty://{SECRET}@key", "[0]: "),
    ],
)
def test_a_wrong_route_is_one_sentence_without_its_secret_and_leaves_the_others_alone(wrong, said, set_to):
    set_to([wrong, CHAT])
    (problem,) = problems()
    assert problem.startswith(f"LAKEHOUSE_ALERT_ROUTES{said}")
    assert problem.endswith("; this route is not used")
    assert SECRET not in problem
    assert list(channels()) == ["log", "chat"]


def test_a_name_that_is_there_twice_is_the_first_ones(set_to):
    set_to([CHAT, {**ONCALL, "name": "chat"}])
    assert problems() == (
        "LAKEHOUSE_ALERT_ROUTES[1].name: 'chat' is there twice; give each its own; this route is not used",
    )
    assert [route.scheme for route in routes().found] == ["slack"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'[{{"name": "x", "url": "slack://{SECRET}"', "is no JSON: Expecting ',' delimiter at line 1, column"),
        ('{"name": "x"}', "must be a JSON list"),
    ],
)
def test_a_setting_that_is_no_list_of_routes_leaves_the_webhook_alone(text, said, set_to):
    set_to(text, webhook="https://example.org/x")
    (problem,) = problems()
    assert problem.startswith(f"LAKEHOUSE_ALERT_ROUTES {said}")
    assert SECRET not in problem
    assert list(channels()) == ["log", "webhook"]


def test_a_webhook_that_is_no_web_address_is_told(set_to):
    set_to(webhook=f"slack://{SECRET}")
    (problem,) = problems()
    assert problem.startswith("LAKEHOUSE_ALERT_WEBHOOK must begin with http:// or https://")
    assert SECRET not in problem
    assert list(channels()) == ["log"]


def test_no_secret_is_shown_when_routes_are_printed(set_to):
    set_to([ONCALL], webhook=f"https://example.org/{SECRET}")
    assert SECRET not in repr(routes())


def test_the_routes_that_the_operations_page_shows_can_be_put_into_the_file_of_settings(tmp_path, monkeypatch):
    page = (ROOT / "include/docs/operations.md").read_text()
    (shown,) = re.findall(r"^```\n(LAKEHOUSE_ALERT_ROUTES=.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "env").write_text(shown)
    monkeypatch.setenv("LAKEHOUSE_ENV_FILE", str(tmp_path / "env"))
    settings.cache_clear()
    assert (list(channels()), problems()) == (["log", "oncall", "chat"], ())
