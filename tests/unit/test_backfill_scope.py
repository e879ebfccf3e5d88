"""Which datasets a backfill takes, in which order, and which of their intervals."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from lakehouse.backfill.days import listed, moment, span
from lakehouse.backfill.scope import beginning_in, in_order, overlapping
from lakehouse.contracts import load
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval, typed
from lakehouse.settings import ROOT
from tests.unit.backfill_world import BRONZE_NAME, GOLD_NAME, NOW, SILVER_NAME, contracts, day, days

BERLIN = ZoneInfo("Europe/Berlin")


def names(found) -> list[str]:
    return [contract.dataset for contract in found]


@pytest.mark.parametrize(
    ("dataset", "upstream", "downstream", "expected"),
    [
        (SILVER_NAME, False, False, [SILVER_NAME]),
        (SILVER_NAME, True, False, [BRONZE_NAME, SILVER_NAME]),
        (SILVER_NAME, False, True, [SILVER_NAME, GOLD_NAME]),
        (SILVER_NAME, True, True, [BRONZE_NAME, SILVER_NAME, GOLD_NAME]),
        (BRONZE_NAME, False, True, [BRONZE_NAME, SILVER_NAME, GOLD_NAME]),
        (GOLD_NAME, True, False, [BRONZE_NAME, SILVER_NAME, GOLD_NAME]),
    ],
)
def test_kin_is_taken_as_asked_and_each_comes_after_its_inputs(tmp_path, dataset, upstream, downstream, expected):
    assert names(in_order(contracts(tmp_path), dataset, upstream=upstream, downstream=downstream)) == expected


def test_every_shipped_dataset_comes_after_its_inputs():
    shipped = load(ROOT / "include/contracts").contracts
    for dataset in shipped:
        found = names(in_order(shipped, dataset, upstream=True, downstream=True))
        for place, name in enumerate(found):
            assert not set(shipped[name].inputs) & set(found[place:])


def test_a_day_is_asked_for_with_all_its_intervals(tmp_path):
    hourly = contracts(tmp_path, bronze="@hourly")[BRONZE_NAME]
    found = beginning_in(hourly, span("2026-01-02", "2026-01-02", UTC), NOW)
    assert len(found) == 24
    assert found[0].start == day(2).start
    assert found[-1].end == day(2).end


def test_an_interval_that_begins_before_the_span_is_not_asked_for_but_overlaps(tmp_path):
    weekly = contracts(tmp_path, gold="0 0 * * 1")[GOLD_NAME]  # 2026-01-05 was a Monday
    within = day(7, 2)
    assert beginning_in(weekly, within, NOW) == []
    assert overlapping(weekly, within, NOW) == [day(5, 7)]


def test_intervals_that_have_not_ended_are_left_out(tmp_path):
    bronze = contracts(tmp_path)[BRONZE_NAME]
    assert beginning_in(bronze, span("2026-01-18", "2026-01-25", UTC), NOW) == days(18, 19)


def test_intervals_before_the_contracts_start_and_from_its_end_on_are_none_of_its(tmp_path):
    bronze = contracts(tmp_path)[BRONZE_NAME].model_copy(
        update={"start": datetime(2026, 1, 3, tzinfo=UTC).date(), "end": datetime(2026, 1, 5, tzinfo=UTC).date()}
    )
    assert overlapping(bronze, span("2026-01-01", "2026-01-10", UTC), NOW) == days(3, 4)


def test_days_are_those_of_the_contracts_zone_also_when_the_clocks_change(tmp_path):
    local = contracts(tmp_path)[BRONZE_NAME].model_copy(update={"timezone": "Europe/Berlin"})
    now = datetime(2026, 4, 10, tzinfo=UTC)
    found = beginning_in(local, span("2026-03-28", "2026-03-30", BERLIN), now)
    assert [typed(one, local.timezone) for one in found] == ["2026-03-28", "2026-03-29", "2026-03-30"]
    assert [(one.end - one.start).total_seconds() / 3600 for one in found] == [24, 23, 24]


def test_a_span_that_ends_before_it_begins_is_refused():
    with pytest.raises(LakehouseError, match="2026-01-02 is after the end date 2026-01-01"):
        span("2026-01-02", "2026-01-01", UTC)


def test_a_time_stands_for_itself():
    assert moment("2026-01-01T06:00", BERLIN) == datetime(2026, 1, 1, 5, tzinfo=UTC)
    assert span("2026-01-01T06:00", "2026-01-01T06:00", UTC).start == datetime(2026, 1, 1, 6, tzinfo=UTC)


def test_intervals_are_listed_by_their_first_and_last_where_none_is_missing_between(tmp_path):
    bronze = contracts(tmp_path)[BRONZE_NAME]
    assert listed(bronze, days(7, 5, 6, 2)) == "2026-01-02, 2026-01-05 to 2026-01-07"
    six = datetime(2026, 1, 1, 6, tzinfo=UTC)
    assert listed(bronze, [Interval(six, six.replace(hour=7))]) == "2026-01-01T06:00+00:00"
