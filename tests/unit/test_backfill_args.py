"""`airflow dags backfill`: what its arguments mean, and how its outcome is told."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from lakehouse.errors import LakehouseError
from lakehouse_airflow.backfill_request import Day, Request, finished, progress, verdict

BERLIN = ZoneInfo("Europe/Berlin")
NOT_GIVEN = {
    "dag_id": "silver_orders",
    "start_date": None,
    "end_date": None,
    "rerun_failed_tasks": False,
    "reset_dagruns": False,
    "run_backwards": False,
    "max_active_runs": None,
    "conf": None,
}


def asked(zone=UTC, **given) -> Request:
    return Request.of(Namespace(**{**NOT_GIVEN, **given}), zone)


def days(*states: str) -> list[Day]:
    return [Day(datetime(2026, 1, n, tzinfo=UTC), state) for n, state in enumerate(states, start=1)]


def test_both_ends_are_included_whole_days():
    request = asked(start_date="2026-01-01", end_date="2026-01-07")
    assert request.first == datetime(2026, 1, 1, tzinfo=UTC)
    assert request.last == datetime(2026, 1, 7, 23, 59, 59, 999999, tzinfo=UTC)


def test_days_are_those_of_the_dags_time_zone_also_when_the_clocks_change():
    request = asked(BERLIN, start_date="2026-03-29", end_date="2026-03-29")
    assert request.first.astimezone(UTC) == datetime(2026, 3, 28, 23, tzinfo=UTC)
    assert request.last.astimezone(UTC) == datetime(2026, 3, 29, 21, 59, 59, 999999, tzinfo=UTC)


def test_a_time_is_taken_as_it_is():
    request = asked(BERLIN, start_date="2026-01-01T06:00", end_date="2026-01-01T08:00+00:00")
    assert request.first.astimezone(UTC) == datetime(2026, 1, 1, 5, tzinfo=UTC)
    assert request.last == datetime(2026, 1, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize("only", ["start_date", "end_date"])
def test_one_date_alone_is_one_day(only):
    assert asked(**{only: "2026-01-05"}) == asked(start_date="2026-01-05", end_date="2026-01-05")


@pytest.mark.parametrize(
    ("given", "reprocess"),
    [
        ({}, "none"),
        ({"rerun_failed_tasks": True}, "failed"),
        ({"reset_dagruns": True}, "completed"),
        ({"rerun_failed_tasks": True, "reset_dagruns": True}, "completed"),
    ],
)
def test_what_is_run_again(given, reprocess):
    assert asked(start_date="2026-01-01", **given).reprocess == reprocess


def test_conf_is_a_json_object():
    assert asked(start_date="2026-01-01", conf='{"a": 1}').conf == {"a": 1}
    assert asked(start_date="2026-01-01").conf is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "say which days"),
        ({"start_date": "yesterday"}, "'yesterday' is no date"),
        ({"start_date": "2026-02-30"}, "'2026-02-30' is no date"),
        ({"start_date": "2026-01-07", "end_date": "2026-01-01"}, "is after the end date"),
        ({"start_date": "2026-01-01", "conf": "{a"}, "--conf is no JSON"),
        ({"start_date": "2026-01-01", "conf": "[1]"}, "--conf must be a JSON object"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(LakehouseError, match=sentence.replace("(", r"\(")) as refused:
        asked(**given)
    assert "\n" not in str(refused.value)


def test_progress_counts_the_days_by_state():
    assert progress(days("success", "failed", "running", "queued")) == (
        "2 of 4 done: 1 failed, 1 queued, 1 running, 1 success"
    )


def test_it_is_finished_when_no_day_can_change_any_more():
    assert finished(days("success", "failed", "gone"))
    assert not finished(days("success", "running"))


def test_the_verdict_names_the_days_that_did_not_succeed():
    assert verdict(days("success", "success")) is None
    told = verdict(days("success", "failed", "success", "gone"))
    assert told is not None
    assert "2 of 4 days did not succeed: 2026-01-02, 2026-01-04" in told


def test_a_day_that_begins_at_no_midnight_is_named_with_its_time():
    assert Day(datetime(2026, 1, 1, 6, tzinfo=UTC), "failed").name == "2026-01-01T06:00"
