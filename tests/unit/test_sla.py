"""The evaluator, under fixed clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from lakehouse.intervals import Coverage, Interval
from lakehouse.sla import Kind, Miss, State, Verdict, arrived_or_withdrawn, ended, evaluate, freshness
from tests.unit.promising import contract

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING = Coverage()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def interval(start: str, end: str) -> Interval:
    return Interval(at(start), at(end))


def look(
    now: str, held: Coverage = NOTHING, since: datetime = LONG_AGO, floor: date | None = None, **given: object
) -> list[Verdict]:
    return evaluate(contract(**given), held, since, at(now), floor)


def states(verdicts: list[Verdict]) -> list[tuple[str, State]]:
    return [(f"{v.interval.start:%m-%d}", v.state) for v in verdicts]


def test_a_published_interval_is_met_also_when_it_is_part_of_a_longer_coverage():
    held = Coverage.of([interval("2026-01-01", "2026-01-03")])
    assert states(look("2026-01-03T05:00", held)) == [("01-02", State.MET), ("01-01", State.MET)]


def test_an_interval_is_awaited_until_it_is_due_and_missed_after():
    before, moment, after = (look(f"2026-01-02T{t}")[0] for t in ("01:59:59", "02:00:00", "02:00:01"))
    assert [v.state for v in (before, moment, after)] == [State.WAITING, State.WAITING, State.MISSED]
    assert (after.due, after.lag) == (at("2026-01-02T02:00"), timedelta(seconds=1))


def test_a_gap_is_missed_though_newer_intervals_are_there():
    held = Coverage.of([interval("2026-01-01", "2026-01-02"), interval("2026-01-03", "2026-01-04")])
    assert states(look("2026-01-04T05:00", held)) == [
        ("01-03", State.MET),
        ("01-02", State.MISSED),
        ("01-01", State.MET),
    ]


def test_what_fell_due_before_the_sla_was_in_force_never_pages():
    since = at("2026-01-05T02:00")  # the very moment at which the interval of the 4th fell due
    assert states(look("2026-01-05T12:00", since=since)) == [("01-04", State.EXEMPT)]
    assert states(look("2026-01-06T12:00", since=since)) == [("01-05", State.MISSED)]


def test_what_ended_before_the_sla_was_in_force_but_fell_due_after_pages():
    assert states(look("2026-01-05T12:00", since=at("2026-01-05T01:00"))) == [("01-04", State.MISSED)]


def test_nothing_is_asked_of_the_time_before_the_contract_or_the_platform_starts():
    assert states(look("2026-01-01T23:00")) == []
    assert states(look("2026-01-04T12:00", floor=date(2026, 1, 3))) == [("01-03", State.MISSED)]
    assert states(look("2026-01-02T12:00", floor=date(2025, 12, 1))) == [("01-01", State.MISSED)]


def test_no_interval_begins_on_or_after_the_contracts_end():
    verdicts = look("2026-06-01T12:00", end=date(2026, 1, 3))
    assert states(verdicts) == [("01-02", State.MISSED), ("01-01", State.MISSED)]


def test_the_last_interval_of_an_ended_contract_may_end_after_it():
    weekly = look("2026-12-01", schedule="@weekly", end=date(2026, 1, 7))
    assert [v.interval for v in weekly] == [interval("2026-01-04", "2026-01-11")]


@pytest.mark.parametrize(
    ("now", "expected", "due"),
    [
        ("2026-03-29T23:30", interval("2026-03-28T23:00", "2026-03-29T22:00"), "2026-03-30T00:00"),  # 23 hours
        ("2026-10-26T00:30", interval("2026-10-24T22:00", "2026-10-25T23:00"), "2026-10-26T01:00"),  # 25 hours
    ],
)
def test_a_day_in_berlin_has_its_own_length_when_the_clocks_change(now, expected, due):
    newest = look(now, timezone="Europe/Berlin", since=at(now) - timedelta(hours=1))[0]
    assert (newest.interval, newest.due, newest.state) == (expected, at(due), State.WAITING)


def test_the_days_of_berlin_join_without_a_gap_across_both_changes():
    berlin = contract(timezone="Europe/Berlin")
    days = list(ended(berlin, at("2026-12-01")))
    assert all(newer.start == older.end for newer, older in pairwise(days))
    assert len(days) == (date(2026, 12, 1) - date(2026, 1, 1)).days


def test_the_look_back_is_bounded():
    assert len(look("2026-03-01", schedule="@hourly", since=LONG_AGO)) == 200


def test_the_same_miss_has_the_same_id_whenever_it_is_seen():
    day = interval("2026-01-01", "2026-01-02")
    first = Miss("bronze.orders", day, day.end, opened_at=at("2026-01-02T03:00"))
    second = Miss("bronze.orders", day, day.end, opened_at=at("2026-01-02T04:00"))
    other = Miss("bronze.orders", interval("2026-01-02", "2026-01-03"), day.end, opened_at=at("2026-01-02T03:00"))
    assert first.alert_id == second.alert_id != other.alert_id


def test_a_miss_is_over_when_the_data_arrives_or_nobody_asks_for_it_any_more():
    day = interval("2026-01-05", "2026-01-06")
    miss = Miss("bronze.orders", day, day.end, opened_at=day.end)
    assert arrived_or_withdrawn(miss, contract(), NOTHING) is None
    assert arrived_or_withdrawn(miss, contract(), Coverage.of([day])) == "arrived"
    assert arrived_or_withdrawn(miss, None, NOTHING) == "withdrawn"
    assert arrived_or_withdrawn(miss, contract(end=date(2026, 1, 5)), NOTHING) == "withdrawn"


def test_a_contract_without_a_promise_is_never_late():
    assert states(look("2026-01-09T12:00", sla={"ready_within": None})) == [("01-08", State.FREE)]


@pytest.mark.parametrize(
    ("end", "due"),
    [
        ("2026-03-28T23:00", "2026-03-29T04:00"),  # the night in which clocks go forward
        ("2026-03-29T22:00", "2026-03-30T04:00"),
        ("2026-10-24T22:00", "2026-10-25T05:00"),  # the night in which they go back
        ("2026-10-25T23:00", "2026-10-26T05:00"),
    ],
)
def test_a_time_of_day_is_kept_across_both_changes_of_the_clocks(end, due):
    promised = {"timezone": "Europe/Berlin", "sla": {"ready_by": "06:00"}}
    before, after = (look(f"{due}:{seconds}", **promised)[0] for seconds in ("00", "01"))
    assert (before.interval.end, before.due) == (at(end), at(due))
    assert (before.state, after.state) == (State.WAITING, State.MISSED)


def stale(now: str, *held: Interval, since: datetime = LONG_AGO, **given: object) -> State | None:
    found = freshness(contract(**given), Coverage.of(held), since, at(now))
    return found.state if found else None


def test_a_daily_table_is_stale_26_hours_after_the_end_of_its_newest_interval():
    day = interval("2026-01-01", "2026-01-02")
    assert [stale(f"2026-01-03T{t}", day) for t in ("02:00", "02:01")] == [State.MET, State.MISSED]
    found = freshness(contract(), Coverage.of([day]), LONG_AGO, at("2026-01-03T02:01"))
    assert found is not None
    assert (found.kind, found.interval, found.lag) == (
        Kind.FRESH,
        interval("2026-01-02", "2026-01-03"),
        timedelta(minutes=1),
    )


def test_a_table_is_never_stale_before_its_next_interval_is_due():
    day = interval("2026-01-01", "2026-01-02")
    assert stale("2026-01-03T05:59", day, sla={"ready_within": "6h"}) is State.MET
    assert stale("2026-01-03T06:01", day, sla={"ready_within": "6h"}) is State.MISSED


def test_a_contract_may_say_how_old_its_table_may_grow():
    day = interval("2026-01-01", "2026-01-02")
    assert stale("2026-01-02T12:01", day, sla={"ready_within": "2h", "fresh_within": "12h"}) is State.MISSED


def test_a_table_is_not_stale_that_holds_nothing_or_all_there_will_be_or_was_so_before_anybody_watched():
    day = interval("2026-01-01", "2026-01-02")
    assert stale("2026-02-01") is None
    assert stale("2026-02-01", day, end=date(2026, 1, 2)) is None
    assert stale("2026-02-01", day, sla={"ready_within": None}) is None
    assert stale("2026-02-01", day, since=at("2026-01-20")) is State.EXEMPT


def test_a_stale_table_is_fresh_again_when_something_newer_is_there():
    awaited = interval("2026-01-02", "2026-01-03")
    miss = Miss("bronze.orders", awaited, awaited.end, awaited.end, Kind.FRESH)
    newer = Coverage.of([interval("2026-01-01", "2026-01-02"), interval("2026-01-03", "2026-01-04")])
    assert arrived_or_withdrawn(miss, contract(), newer) == "arrived"


@pytest.mark.parametrize(
    "given", [{"sla": {"ready_within": None}}, {"start": date(2026, 1, 6)}, {"end": date(2026, 1, 5)}]
)
def test_a_miss_is_withdrawn_when_its_contract_promises_it_no_longer(given):
    day = interval("2026-01-05", "2026-01-06")
    for kind in (Kind.READY, Kind.FRESH):
        miss = Miss("bronze.orders", day, day.end, day.end, kind)
        assert arrived_or_withdrawn(miss, contract(), NOTHING) is None
        assert arrived_or_withdrawn(miss, contract(**given), NOTHING) == "withdrawn"


def test_a_miss_keeps_its_id_when_the_schedule_changes():
    daily, hourly = interval("2026-01-05", "2026-01-06"), interval("2026-01-05", "2026-01-05T01:00")
    ids = {Miss("bronze.orders", one, one.end, one.end).alert_id for one in (daily, hourly)}
    assert len(ids) == 1
