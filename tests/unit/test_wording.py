"""Sizes, lengths of time and moments in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from lakehouse.wording import ago, clock, length, size

NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KB"), (128 << 20, "128 MB"), (5 << 40, "5.0 TB")],
)
def test_a_size_is_said_by_the_megabytes_of_contracts(count, said):
    assert size(count) == said


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (timedelta(seconds=59), "less than a minute"),
        (timedelta(minutes=59), "59 min"),
        (timedelta(hours=2), "2 h"),
        (timedelta(hours=47, minutes=5), "47 h 5 min"),
        (timedelta(days=2), "2 d"),
        (timedelta(days=3, hours=4, minutes=59), "3 d 4 h"),
    ],
)
def test_a_length_of_time_is_said_in_two_units_at_most(time, said):
    assert length(time) == said


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (None, "never"),
        (NOW + timedelta(seconds=5), "just now"),
        (NOW - timedelta(seconds=59), "just now"),
        (NOW - timedelta(minutes=90), "1 h 30 min ago"),
    ],
)
def test_how_long_ago_it_was(moment, said):
    assert ago(moment, NOW) == said


def test_a_moment_is_said_in_utc():
    assert clock(NOW.astimezone(ZoneInfo("Europe/Berlin"))) == "2026-01-20 12:00 UTC"
