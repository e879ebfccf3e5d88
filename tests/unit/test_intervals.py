"""Intervals and sets of them."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from lakehouse.intervals import Coverage, Interval, shown, typed


def day(number: int, days: int = 1) -> Interval:
    start = datetime(2026, 1, number, tzinfo=UTC)
    return Interval(start, start + timedelta(days=days))


def test_neighbours_and_overlaps_merge_whatever_their_order():
    assert Coverage.of([day(3), day(1), day(2), day(2, 2)]).intervals == (day(1, 3),)


def test_a_gap_stays_a_gap():
    assert Coverage.of([day(1), day(3)]).intervals == (day(1), day(3))


def test_an_interval_inside_a_longer_one_adds_nothing():
    assert Coverage.of([day(1, 5)]).add(day(2)).intervals == (day(1, 5),)


def test_coverage_holds_an_interval_only_whole():
    coverage = Coverage.of([day(1), day(2), day(4)])
    assert day(1, 2) in coverage
    assert day(2, 3) not in coverage
    assert day(3) not in coverage
    assert day(1) not in Coverage()


def test_an_interval_over_a_gap_is_not_held_by_its_two_sides():
    assert day(1, 3) not in Coverage.of([day(1), day(3)])


def test_freshness_is_the_end_of_the_newest_interval():
    assert Coverage.of([day(3), day(1)]).end == datetime(2026, 1, 4, tzinfo=UTC)
    assert Coverage().end is None


def test_coverage_survives_the_way_through_text():
    coverage = Coverage.of([day(1), day(3, 2)])
    assert Coverage.loads(coverage.dumps()) == coverage
    assert Coverage.loads(None) == Coverage() == Coverage.loads(Coverage().dumps())


def test_an_interval_survives_the_way_through_text():
    assert Interval.parse(str(day(5))) == day(5)


def test_intervals_of_the_same_moments_are_equal_in_any_zone():
    berlin = timezone(timedelta(hours=1))
    there = Interval(datetime(2026, 1, 1, 1, tzinfo=berlin), datetime(2026, 1, 2, 1, tzinfo=berlin))
    assert there == day(1)
    assert str(there) == str(day(1))


def test_the_days_of_an_interval_leave_out_its_end():
    assert day(1, 2).days == [date(2026, 1, 1), date(2026, 1, 2)]
    assert Interval(datetime(2026, 1, 1, 5, tzinfo=UTC), datetime(2026, 1, 1, 6, tzinfo=UTC)).days == [date(2026, 1, 1)]


def test_a_time_without_zone_is_refused():
    with pytest.raises(ValueError, match="zone"):
        Interval(datetime(2026, 1, 1), datetime(2026, 1, 2))  # noqa: DTZ001  that is what is refused


@pytest.mark.parametrize("days", [0, -1])
def test_an_interval_that_does_not_end_after_it_starts_is_refused(days):
    with pytest.raises(ValueError, match="end after it starts"):
        day(1, days)


def test_an_hour_that_clocks_go_back_to_is_an_interval():
    berlin = ZoneInfo("Europe/Berlin")
    twice = Interval(datetime(2026, 10, 25, 2, tzinfo=berlin), datetime(2026, 10, 25, 2, fold=1, tzinfo=berlin))
    assert twice.end - twice.start == timedelta(hours=1)


@pytest.mark.parametrize(
    ("start", "end", "zone", "said"),
    [
        ("2026-03-28T23:00", "2026-03-29T22:00", "Europe/Berlin", "2026-03-29"),  # 23 hours
        ("2026-11-15T23:00", "2026-11-22T23:00", "Europe/Berlin", "2026-11-16 to 2026-11-22"),
        ("2026-11-15T06:00", "2026-11-15T07:00", "UTC", "2026-11-15 06:00 to 07:00 UTC"),
        ("2026-11-15T06:00", "2026-11-16T06:00", "UTC", "2026-11-15 06:00 to 2026-11-16 06:00 UTC"),
    ],
)
def test_people_read_whole_days_by_their_dates_and_all_else_by_the_clock(start, end, zone, said):
    interval = Interval(*(datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (start, end)))
    assert shown(interval, zone) == said


@pytest.mark.parametrize(
    ("start", "end", "zone", "said"),
    [
        ("2026-03-28T23:00", "2026-03-29T22:00", "Europe/Berlin", "2026-03-29"),  # 23 hours
        ("2026-11-15T06:00", "2026-11-16T06:00", "UTC", "2026-11-15"),
        ("2026-11-15T00:00", "2026-11-15T01:00", "UTC", "2026-11-15T00:00+00:00"),  # the day would be all its hours
        ("2026-11-15T06:00", "2026-11-15T07:00", "Europe/Berlin", "2026-11-15T06:00+00:00"),
    ],
)
def test_commands_take_a_day_or_the_start_where_a_day_has_several(start, end, zone, said):
    interval = Interval(*(datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (start, end)))
    assert typed(interval, zone) == said
