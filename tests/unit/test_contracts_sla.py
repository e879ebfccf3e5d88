"""When an interval is due: durations, times of day, and the two days on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from lakehouse.contracts.sla import Sla, without_rival

BERLIN = "Europe/Berlin"


def due(end: str, zone: str = "UTC", **promised: object) -> str | None:
    found = Sla.model_validate(promised).due(datetime.fromisoformat(end).replace(tzinfo=UTC), zone)
    return f"{found.astimezone(UTC):%m-%dT%H:%M}" if found else None


def test_a_duration_counts_from_the_intervals_end():
    assert due("2026-01-02T00:00", ready_within="90m") == "01-02T01:30"


def test_nothing_is_due_where_nothing_is_promised():
    assert due("2026-01-02T00:00", fresh_within="30h") is None


def test_a_time_of_day_is_the_next_one_after_the_end_or_the_end_itself():
    ends = ("2026-01-02T06:29", "2026-01-02T06:30", "2026-01-02T06:31")
    assert [due(end, ready_by="06:30") for end in ends] == ["01-02T06:30", "01-02T06:30", "01-03T06:30"]


def test_a_time_of_day_is_one_of_its_own_zone_else_of_the_contracts():
    assert due("2026-01-02T00:00", zone=BERLIN, ready_by="06:00") == "01-02T05:00"
    assert due("2026-01-02T00:00", zone=BERLIN, ready_by="06:00", timezone="America/New_York") == "01-02T11:00"


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("2026-03-27T23:00", "03-28T05:00"),  # winter
        ("2026-03-28T23:00", "03-29T04:00"),  # the night in which clocks go forward
        ("2026-03-29T22:00", "03-30T04:00"),  # summer
        ("2026-10-23T22:00", "10-24T04:00"),
        ("2026-10-24T22:00", "10-25T05:00"),  # the night in which clocks go back
        ("2026-10-25T23:00", "10-26T05:00"),
    ],
)
def test_six_in_the_morning_stays_six_in_the_morning_when_clocks_change(end, expected):
    assert due(end, zone=BERLIN, ready_by="06:00") == expected


def test_a_time_that_the_clock_skips_is_as_long_after_the_change_as_it_is_written():
    assert due("2026-03-28T23:00", zone=BERLIN, ready_by="02:30") == "03-29T01:30"  # clocks show 03:30


def test_of_a_time_that_the_clock_shows_twice_the_first_counts_that_is_not_over():
    assert due("2026-10-24T22:00", zone=BERLIN, ready_by="02:30") == "10-25T00:30"
    assert due("2026-10-25T01:00", zone=BERLIN, ready_by="02:30") == "10-25T01:30"


def test_a_day_of_23_or_25_hours_ends_a_duration_before_it_is_due():
    assert due("2026-03-29T22:00", zone=BERLIN, ready_within="2h") == "03-30T00:00"


def test_yaml_reads_a_time_without_quotes_as_a_number_and_it_means_the_same():
    assert Sla.model_validate({"ready_by": 390}) == Sla.model_validate({"ready_by": "06:30"})


@pytest.mark.parametrize(
    ("promised", "told"),
    [
        ({"ready_by": "6 o'clock"}, "is no time of day; write hours and minutes, such as 06:30"),
        ({"ready_by": "24:00"}, "is no time of day"),
        ({"ready_by": "06:00", "ready_within": "1h"}, "give ready_within or ready_by, not both"),
        ({"ready_within": "1h", "timezone": "UTC"}, "timezone is that of ready_by"),
        ({"severity": "grave"}, "'critical', 'warning' or 'info'"),
    ],
)
def test_mistakes_are_named(promised, told):
    with pytest.raises(ValidationError, match=told):
        Sla.model_validate(promised)


def test_a_contracts_own_promise_takes_the_place_of_its_layers():
    layer = {"sla": {"ready_within": "1h", "severity": "info"}, "retention": {}}
    assert without_rival(layer, {"sla": {"ready_by": "06:00"}})["sla"] == {"severity": "info"}
    assert without_rival(layer, {"sla": {"severity": "critical"}})["sla"] == layer["sla"]
    assert without_rival(layer, {}) == layer


def test_what_was_read_can_be_written_and_read_again():
    promise = Sla.model_validate({"ready_by": "06:30", "timezone": BERLIN, "fresh_within": "30h"})
    assert Sla.model_validate_json(promise.model_dump_json()) == promise
    assert promise.fresh_within == timedelta(hours=30)
