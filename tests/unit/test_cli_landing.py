"""Which interval `lakehouse landing` looks at."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from lakehouse.cli.landing import _interval
from lakehouse.contracts.model import Bronze
from lakehouse.errors import LakehouseError


def contract(schedule: str, timezone: str = "UTC") -> Bronze:
    return Bronze.model_validate(
        {
            "dataset": "bronze.orders",
            "description": "Orders.",
            "owner": "commerce",
            "schedule": schedule,
            "timezone": timezone,
            "start": date(2026, 1, 1),
            "source": {"kind": "files", "path": "orders/{interval:%Y-%m-%d-%H%z}/"},
            "sla": {"ready_within": "2h"},
            "retention": {"snapshots": "7d"},
            "maintenance": {},
        }
    )


@pytest.mark.parametrize(
    ("schedule", "timezone", "text", "start"),
    [
        ("@daily", "UTC", "2026-11-15", "2026-11-15T00:00"),
        ("@daily", "Europe/Berlin", "2026-11-15", "2026-11-14T23:00"),
        ("0 6 * * *", "UTC", "2026-11-15", "2026-11-15T06:00"),
        ("0 6 * * *", "Europe/Berlin", "2026-11-15", "2026-11-15T05:00"),
        ("@hourly", "UTC", "2026-11-15T06:00+00:00", "2026-11-15T06:00"),
        ("@hourly", "Europe/Berlin", "2026-11-15T06:00", "2026-11-15T05:00"),
    ],
)
def test_a_day_or_a_start_names_an_interval(schedule, timezone, text, start):
    assert _interval(contract(schedule, timezone), text).start == datetime.fromisoformat(start).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "text", "said"),
    [
        ("@weekly", "2026-11-17", "no interval of bronze.orders begins at 2026-11-17"),
        ("@daily", "2026-11-15T06:00", "no interval of bronze.orders begins at 2026-11-15T06:00"),
        ("@daily", "yesterday", "'yesterday' is no time"),
    ],
)
def test_what_names_no_interval_is_told(schedule, text, said):
    with pytest.raises(LakehouseError, match=said):
        _interval(contract(schedule), text)
