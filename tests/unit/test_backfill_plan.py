"""What a backfill plans: which intervals of which datasets, in which order, and why."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakehouse.backfill.plan import Facts, Mode, Outdated, Plan, plan
from lakehouse.backfill.scope import in_order, overlapping
from lakehouse.intervals import Coverage, Interval
from tests.unit.backfill_world import BRONZE_NAME, GOLD_NAME, NOW, SILVER_NAME, contracts, day, days, held

ALL_DAYS = range(1, 8)
NEWER = Outdated("its input is newer")
UNDONE = Outdated("built from what was undone", undone=True)


@pytest.fixture
def known(tmp_path):
    return contracts(tmp_path)


def planned(known, facts: dict[str, Facts], mode=Mode.NEEDED, dataset=BRONZE_NAME, span=None, **kin) -> Plan:
    """A plan for the first week of January; datasets of which nothing is said hold all of it."""
    scope = in_order(known, dataset, **{"upstream": False, "downstream": False, **kin})
    within = span or day(1, 7)
    intervals = {one.dataset: overlapping(one, within, NOW) for one in scope}
    whole = {name: Facts(held=Coverage.of([day(1, 20)])) for name in known}
    return plan(scope, intervals, {**whole, **facts}, mode)


def told(found: Plan) -> list[tuple[str, Interval, str]]:
    return [(step.dataset, step.interval, step.why) for step in found.steps]


def without(*numbers: int, **more) -> Facts:
    return Facts(held=held(*(n for n in range(1, 21) if n not in numbers)), **more)


def test_where_everything_is_there_nothing_is_planned(known):
    assert planned(known, {}, downstream=True) == Plan()


def test_what_is_missing_is_planned_oldest_first(known):
    found = planned(known, {BRONZE_NAME: without(5, 2)})
    assert told(found) == [(BRONZE_NAME, day(2), "missing"), (BRONZE_NAME, day(5), "missing")]


def test_what_is_missing_because_its_run_failed_is_told_so(known):
    found = planned(known, {BRONZE_NAME: without(2, 5, failed=frozenset(days(5, 6)))})
    assert told(found) == [(BRONZE_NAME, day(2), "missing"), (BRONZE_NAME, day(5), "failed")]


def test_what_depends_on_an_interval_is_built_again_after_it(known):
    found = planned(known, {BRONZE_NAME: without(3)}, downstream=True)
    assert told(found) == [
        (BRONZE_NAME, day(3), "missing"),
        (SILVER_NAME, day(3), "bronze.events is built again"),
        (GOLD_NAME, day(3), "silver.events is built again"),
    ]


def test_a_dataset_comes_after_all_of_its_input(known):
    found = planned(known, {name: without(2, 4) for name in (BRONZE_NAME, SILVER_NAME)}, downstream=True)
    assert [(one.dataset, one.interval) for one in found.steps] == [
        (name, one) for name in (BRONZE_NAME, SILVER_NAME, GOLD_NAME) for one in days(2, 4)
    ]


def test_what_is_above_is_built_only_when_asked_for(known):
    facts = {BRONZE_NAME: without(3), SILVER_NAME: without(3)}
    alone = planned(known, facts, dataset=SILVER_NAME)
    assert alone.steps == ()
    (blocked,) = alone.blocked
    assert (blocked.step.interval, blocked.lacks, blocked.first) == (
        day(3),
        "bronze.events does not hold it",
        BRONZE_NAME,
    )
    with_inputs = planned(known, facts, dataset=SILVER_NAME, upstream=True)
    assert told(with_inputs) == [(BRONZE_NAME, day(3), "missing"), (SILVER_NAME, day(3), "missing")]
    assert with_inputs.blocked == ()


def test_what_is_outdated_is_planned_unless_only_the_missing_is_asked_for(known):
    facts = {SILVER_NAME: without(2, outdated={day(4): NEWER})}
    needed = planned(known, facts, dataset=SILVER_NAME)
    assert told(needed) == [(SILVER_NAME, day(2), "missing"), (SILVER_NAME, day(4), NEWER.why)]
    only = planned(known, facts, Mode.MISSING, dataset=SILVER_NAME)
    assert told(only) == [(SILVER_NAME, day(2), "missing")]


def test_what_was_built_from_something_undone_counts_as_missing(known):
    facts = {SILVER_NAME: Facts(held=held(*range(1, 21)), outdated={day(4): UNDONE})}
    assert told(planned(known, facts, Mode.MISSING, dataset=SILVER_NAME)) == [(SILVER_NAME, day(4), UNDONE.why)]


def test_only_missing_takes_what_depends_on_it(known):
    facts = {BRONZE_NAME: without(2), SILVER_NAME: Facts(held=held(*range(1, 21)), outdated={day(6): NEWER})}
    found = planned(known, facts, Mode.MISSING, downstream=True)
    assert [(one.dataset, one.interval) for one in found.steps] == [
        (name, day(2)) for name in (BRONZE_NAME, SILVER_NAME, GOLD_NAME)
    ]


def test_all_takes_every_interval(known):
    found = planned(known, {BRONZE_NAME: without(2)}, Mode.ALL)
    assert [one.interval for one in found.steps] == days(*ALL_DAYS)
    assert [one.why for one in found.steps].count("asked for") == 6


def test_a_folder_that_is_not_complete_is_not_waited_for(known):
    found = planned(known, {BRONZE_NAME: without(2, 3, awaited={day(3): "landing/_SUCCESS"})}, downstream=True)
    assert {one.interval for one in found.steps} == {day(2)}
    assert [(one.step.dataset, one.lacks) for one in found.blocked] == [
        (BRONZE_NAME, "its landing folder waits for landing/_SUCCESS")
    ]


def test_what_would_wait_for_something_that_cannot_be_built_is_blocked_too(known):
    facts = {
        BRONZE_NAME: without(3, awaited={day(3): "landing/_SUCCESS"}),
        SILVER_NAME: without(3),
        GOLD_NAME: without(3),
    }
    found = planned(known, facts, downstream=True)
    assert found.steps == ()
    assert [(one.step.dataset, one.lacks) for one in found.blocked] == [
        (BRONZE_NAME, "its landing folder waits for landing/_SUCCESS"),
        (SILVER_NAME, "bronze.events does not hold it"),
        (GOLD_NAME, "silver.events does not hold it"),
    ]
    assert {one.first for one in found.blocked} == {""}


def test_a_table_that_is_stale_as_a_whole_is_mended_by_one_interval(known):
    facts = {GOLD_NAME: Facts(held=held(*range(1, 21)), stale=NEWER)}
    assert told(planned(known, facts, dataset=GOLD_NAME)) == [(GOLD_NAME, day(7), NEWER.why)]
    assert planned(known, facts, Mode.MISSING, dataset=GOLD_NAME).steps == ()


def test_a_stale_table_needs_nothing_more_where_an_interval_of_it_is_built_anyway(known):
    facts = {GOLD_NAME: without(2, stale=NEWER)}
    assert told(planned(known, facts, dataset=GOLD_NAME)) == [(GOLD_NAME, day(2), "missing")]


def test_schedules_are_mapped_by_the_time_they_share(tmp_path):
    known = contracts(tmp_path, bronze="@hourly", gold="0 0 * * 1")
    hour = Interval(day(7).start, day(7).start + timedelta(hours=1))
    facts = {BRONZE_NAME: Facts(held=Coverage.of([day(1, 20)]).remove(hour))}
    found = planned(known, facts, downstream=True, span=hour)
    assert [(one.dataset, one.interval) for one in found.steps] == [
        (BRONZE_NAME, hour),
        (SILVER_NAME, day(7)),
        (GOLD_NAME, day(5, 7)),
    ]


def test_an_interval_needs_its_whole_span_in_its_inputs(tmp_path):
    known = contracts(tmp_path, gold="0 0 * * 1")
    facts = {SILVER_NAME: without(7, 9), GOLD_NAME: without(*range(5, 12))}
    found = planned(known, facts, dataset=SILVER_NAME, downstream=True, span=day(7))
    assert [(one.dataset, one.interval) for one in found.steps] == [(SILVER_NAME, day(7))]
    assert [(one.step.interval, one.lacks) for one in found.blocked] == [(day(5, 7), "silver.events does not hold it")]
