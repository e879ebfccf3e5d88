"""Alerts: what they say, and the schema that receivers rely on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import jsonschema
import pytest
from pydantic import ValidationError

from lakehouse import advice
from lakehouse.alerts import Alert, Story, closing, opening, trial, wording
from lakehouse.alerts.model import SCHEMA_FILE, json_schema
from lakehouse.causes import Cause
from lakehouse.intervals import Interval
from lakehouse.settings import ROOT
from tests.unit.promising import contract

DAY = Interval(datetime(2026, 11, 15, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC))
DUE = datetime(2026, 11, 16, 2, tzinfo=UTC)
LATE = DUE + timedelta(minutes=12)


def story(**given: object) -> Story:
    base = {
        "alert_id": "sla-silver_orders-1",
        "kind": "ready",
        "severity": "critical",
        "due": DUE,
        "opened_at": LATE,
        "dataset": "silver.orders",
        "contract": contract(),
        "interval": DAY,
    }
    return Story(**{**base, **given})


def test_an_opening_says_what_is_late_by_how_much_why_and_who_waits():
    found = opening(story(cause=Cause.UPSTREAM_LATE, root="bronze.orders", blocks=("gold.daily_sales",)))
    assert found.summary == (
        "silver.orders of 2026-11-15 is 12 min late (due 2026-11-16 02:00 UTC): "
        "bronze.orders has not arrived; gold.daily_sales waits behind it"
    )
    assert (found.dag_id, found.owner, found.late_seconds) == ("silver_orders", "commerce", 720)
    assert found.runbook == "include/docs/runbooks/upstream_late.md"


def test_a_closing_shares_the_id_and_says_how_late_it_was_and_advises_nothing():
    told = story(cause=Cause.TASK_FAILED)
    found = closing(told, "arrived", DUE + timedelta(minutes=90))
    assert found.alert_id == opening(told).alert_id
    assert found.summary == "silver.orders of 2026-11-15 has arrived, 1 h 30 min late (due 2026-11-16 02:00 UTC)"
    assert (found.reason, found.closed_at, found.late_seconds) == ("arrived", DUE + timedelta(minutes=90), 5400)
    assert (found.cause, found.command, found.runbook) == (Cause.TASK_FAILED, None, None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "fresh"}, "silver.orders has been stale for 12 min (newer data was due 2026-11-16 02:00 UTC)"),
        (
            {"kind": "heartbeat", "dataset": None, "contract": None, "interval": None, "cause": Cause.WATCH_DOWN},
            "nobody watches the SLAs: the watch's next look was due 12 min ago (2026-11-16 02:00 UTC): the watch is",
        ),
        ({"opened_at": DUE + timedelta(seconds=59)}, "silver.orders of 2026-11-15 is less than a minute late (due "),
        ({"cause": Cause.UPSTREAM_LATE}, "): its input has not arrived"),
        ({"blocks": ("a.a", "b.b")}, "; a.a and b.b wait behind it"),
        ({"blocks": tuple("abcde")}, "; a, b, c and 2 more wait behind it"),
    ],
)
def test_other_openings(given, said):
    assert said in opening(story(**given)).summary


@pytest.mark.parametrize(
    ("given", "reason", "said"),
    [
        ({}, "withdrawn", "silver.orders of 2026-11-15 is no longer asked for by its contract (due "),
        ({"kind": "fresh"}, "recovered", "silver.orders is fresh again, 12 min late (due "),
        ({"kind": "heartbeat", "dataset": None}, "recovered", "the watch looks again, 12 min late (due "),
    ],
)
def test_other_closings(given, reason, said):
    assert closing(story(**given), reason, LATE).summary.startswith(said)


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_can_be_said_and_has_a_command_and_a_runbook(cause):
    found = opening(story(cause=cause, root="bronze.orders"))
    assert ": " in found.summary.partition("UTC)")[2]
    assert found.command is not None
    assert found.command.startswith("lakehouse ")
    assert "{" not in found.command
    assert found.runbook == f"include/docs/runbooks/{cause}.md"


def test_the_command_names_the_day_in_the_datasets_own_zone():
    berlin = Interval(datetime(2026, 11, 14, 23, tzinfo=UTC), datetime(2026, 11, 15, 23, tzinfo=UTC))
    found = advice.command(Cause.TASK_FAILED, "silver.orders", berlin, "Europe/Berlin")
    assert found == "lakehouse airflow dags backfill -s 2026-11-15 -e 2026-11-15 silver_orders --rerun-failed-tasks"


def test_the_command_names_an_hour_by_its_start():
    hour = Interval(datetime(2026, 11, 15, 6, tzinfo=UTC), datetime(2026, 11, 15, 7, tzinfo=UTC))
    found = advice.command(Cause.NO_RUN, "silver.clicks", hour, "Europe/Berlin")
    start = "2026-11-15T06:00+00:00"
    assert found == f"lakehouse airflow dags backfill -s {start} -e {start} silver_clicks"


def test_bronze_waits_for_files_and_the_others_for_datasets():
    assert advice.command(Cause.SENSOR_WAITING, "bronze.orders", DAY) == "lakehouse landing bronze.orders 2026-11-15"
    waiting = advice.command(Cause.SENSOR_WAITING, "silver.orders", DAY)
    assert waiting == "lakehouse airflow tasks states-for-dag-run silver_orders 2026-11-15T00:00:00+00:00"


def test_no_command_is_advised_whose_words_are_not_known():
    assert advice.command(Cause.TASK_FAILED, "silver.orders") is None
    assert advice.command(Cause.GATE_FAILED) is None
    assert advice.command(None, "silver.orders", DAY) is None


def test_the_runbook_is_a_link_where_the_setting_says(monkeypatch):
    from lakehouse.settings import settings

    monkeypatch.setenv("LAKEHOUSE_DOCS_URL", "https://docs.example.org/lakehouse/")
    settings.cache_clear()
    assert advice.runbook(Cause.NO_RUN) == "https://docs.example.org/lakehouse/runbooks/no_run.md"
    monkeypatch.undo()
    settings.cache_clear()


def test_the_body_has_all_that_matters_and_nothing_a_chat_would_format():
    found = wording.body(
        opening(story(cause=Cause.GATE_FAILED, detail="unique(`id`):\n 3 *values* twice", link="http://airflow/run"))
    )
    assert found.splitlines()[0].startswith("silver.orders of 2026-11-15 is 12 min late")
    assert "- detail: `unique('id'): 3 *values* twice`" in found
    assert "- try: `lakehouse gates silver.orders --wrong`" in found
    assert "- run: http://airflow/run" in found
    assert "- owner: commerce" in found


def test_the_title_says_severity_while_it_lasts():
    told = story()
    assert wording.title(opening(told)) == "[critical] silver.orders"
    assert wording.title(closing(told, "arrived", LATE)) == "[over] silver.orders"
    assert wording.title(trial(LATE)) == "[info] lakehouse test"


def test_a_closed_alert_has_its_reason_and_an_opened_one_has_none():
    whole = dict(closing(story(), "arrived", LATE))
    for wrong in ({"reason": None}, {"closed_at": None}, {"event": "opened"}):
        with pytest.raises(ValidationError, match="a closed alert has a reason"):
            Alert(**{**whole, **wrong})


def test_an_alert_takes_no_field_it_does_not_know():
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Alert(**{**dict(opening(story())), "sumary": "x"})


def test_the_schema_file_is_the_models():
    assert SCHEMA_FILE.read_text() == json_schema(), "run `lakehouse alert schema`"


@pytest.mark.parametrize(
    "alert",
    [
        opening(story(cause=Cause.NO_RUN, root="silver.orders", blocks=("gold.daily_sales",))),
        closing(story(), "arrived", LATE),
        trial(LATE),
    ],
    ids=["opened", "closed", "test"],
)
def test_what_is_sent_keeps_the_schema_and_has_every_field(alert):
    sent = json.loads(json.dumps(alert.model_dump(mode="json")))
    schema = json.loads(json_schema())
    jsonschema.validate(sent, schema)
    assert set(schema["required"]) == set(sent)
    assert Alert.model_validate(sent) == alert


def test_the_schema_refuses_what_is_no_cause():
    sent = opening(replace(story(), cause=Cause.NO_RUN)).model_dump(mode="json")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**sent, "cause": "bad_luck"}, json.loads(json_schema()))


def test_the_alert_that_the_operations_page_shows_is_one():
    page = (ROOT / "include/docs/operations.md").read_text()
    (shown,) = re.findall(r"^```json\n(\{\"version\".*?)^```$", page, re.MULTILINE | re.DOTALL)
    jsonschema.validate(json.loads(shown), json.loads(json_schema()))
