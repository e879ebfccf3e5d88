"""Which interval commands take for a day or a time that somebody types."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from lakehouse import landing, quarantine
from lakehouse.cli.intervals import interval, with_landing
from lakehouse.cli.land import land
from lakehouse.cli.quarantine import show_records
from lakehouse.contracts.model import Bronze
from lakehouse.errors import LakehouseError
from lakehouse.intervals import typed
from tests.unit.contract_folder import BRONZE, SILVER, loaded

IN_BERLIN = "timezone: Europe/Berlin\n"


def contract(schedule: str, timezone: str = "UTC") -> Bronze:
    return Bronze.model_validate(
        {
            "dataset": "bronze.orders",
            "description": "Orders.",
            "owner": "commerce",
            "schedule": schedule,
            "timezone": timezone,
            "start": date(2026, 1, 1),
            "source": {"kind": "files", "path": "orders/{interval:%Y-%m-%d-%H%M%z}/"},
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
        ("0 23 * * *", "Europe/Berlin", "2026-11-15", "2026-11-15T22:00"),
        ("@daily", "Europe/Berlin", "2026-03-29", "2026-03-28T23:00"),
        ("@daily", "Europe/Berlin", "2026-10-25", "2026-10-24T22:00"),
        ("@hourly", "UTC", "2026-11-15", "2026-11-15T00:00"),
        ("@hourly", "UTC", "2026-11-15T06:00+00:00", "2026-11-15T06:00"),
        ("@hourly", "Europe/Berlin", "2026-11-15T06:00", "2026-11-15T05:00"),
    ],
)
def test_a_day_or_a_start_names_an_interval(schedule, timezone, text, start):
    assert interval(contract(schedule, timezone), text).start == datetime.fromisoformat(start).replace(tzinfo=UTC)


@pytest.mark.parametrize("timezone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("schedule", ["@daily", "0 6 * * *", "@hourly", "*/15 * * * *", "@weekly", "@monthly"])
@pytest.mark.parametrize("near", ["2026-11-15T12:00", "2026-03-29T03:10", "2026-10-25T02:10", "2026-11-01T07:10"])
def test_an_interval_is_found_by_what_it_is_called(schedule, timezone, near):
    asked = contract(schedule, timezone)
    found = asked.interval_ending_by(datetime.fromisoformat(near).replace(tzinfo=UTC))
    assert interval(asked, typed(found, timezone)) == found


@pytest.mark.parametrize(
    ("schedule", "text", "said"),
    [
        ("@weekly", "2026-11-17", "bronze.orders begins at 2026-11-17: .* 0 0 [*] [*] 0 in UTC; .* write 2026-11-15$"),
        ("@daily", "2026-11-15T06:00", "bronze.orders begins at 2026-11-15T06:00: .* write 2026-11-15$"),
        ("@hourly", "2026-11-15T06:30", "bronze.orders begins at .* write 2026-11-15T06:00[+]00:00$"),
        ("@daily", "yesterday", "'yesterday' is no date; write it as 2026-01-31 or 2026-01-31T06:00$"),
    ],
)
def test_what_names_no_interval_is_refused_with_what_to_write(schedule, text, said):
    with pytest.raises(LakehouseError, match=said):
        interval(contract(schedule), text)


@pytest.fixture
def in_berlin(tmp_path, monkeypatch) -> None:
    changes = {"bronze/events.yaml": BRONZE + IN_BERLIN, "silver/events.yaml": SILVER + IN_BERLIN}
    assert loaded(tmp_path, dict(changes)).problems == ()
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path))


@pytest.mark.usefixtures("in_berlin")
def test_a_day_of_the_quarantine_is_one_of_the_datasets_zone(monkeypatch):
    asked: list[datetime | None] = []
    monkeypatch.setattr(quarantine, "records", lambda *given: (asked.append(given[2]), (["_interval_start"], []))[1])
    show_records("silver.events", interval="2026-01-02")
    show_records("silver.events")
    assert asked == [datetime(2026, 1, 1, 23, tzinfo=UTC), None]


@pytest.mark.usefixtures("in_berlin")
def test_files_are_landed_only_where_an_interval_begins(monkeypatch):
    landed: list[datetime] = []
    monkeypatch.setattr(landing, "put", lambda _contract, start, _files: landed.append(start))
    for text in ("2026-01-02", "2026-01-01T23:00+00:00"):
        land("bronze.events", text, [Path("a.jsonl")], more=True)
    assert landed == [datetime(2026, 1, 1, 23, tzinfo=UTC)] * 2
    with pytest.raises(LakehouseError, match=r"no interval of bronze\.events begins at 2026-01-02T06:00"):
        land("bronze.events", "2026-01-02T06:00", [Path("a.jsonl")], more=True)


@pytest.mark.usefixtures("in_berlin")
def test_only_a_bronze_dataset_has_a_landing_folder():
    assert with_landing("bronze.events").dataset == "bronze.events"
    with pytest.raises(LakehouseError, match=r"silver\.events has no landing folder; name a bronze dataset"):
        with_landing("silver.events")
