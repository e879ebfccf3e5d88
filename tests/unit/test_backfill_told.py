"""What a backfill costs, how it becomes Airflow's runs, and how it is told."""

from __future__ import annotations

import pytest

from lakehouse.backfill.estimate import Estimate, estimate
from lakehouse.backfill.plan import Blocked, Plan, Step
from lakehouse.backfill.runs import reachable, room, rows
from lakehouse.backfill.told import Outcome, lacking, progress, rows_of, verdict
from lakehouse.batch import UNDONE
from tests.unit.backfill_world import BRONZE_NAME, GOLD_NAME, SILVER_NAME, batch, contracts, day, days


def steps(dataset: str, *numbers: int, why: str = "missing") -> list[Step]:
    return [Step(dataset, day(n), why) for n in numbers]


def measured(number: int, rows_in: int, seconds: float, mark: str = "a", **more: object):
    measures = {"write_s": seconds - 1, "publish_s": 1.0, "bytes_out": rows_in * 100}
    return batch(BRONZE_NAME, day(number), mark, counts={"rows_in": rows_in}, measures=measures, **more)


def test_an_interval_costs_what_it_cost_last_time_and_a_new_one_what_is_usual():
    known = [measured(1, 100, 60, "b"), measured(1, 9_999, 9_999), measured(2, 200, 30), measured(3, 300, 90)]
    assert estimate(days(1), known) == Estimate(100, 10_000, 60)
    assert estimate(days(9), known) == Estimate(200, 20_000, 60)
    assert estimate(days(1, 9), known).cells() == ("300", "29 KB", "2.0")


def test_what_was_undone_tells_what_it_will_cost_again():
    assert estimate(days(1), [measured(1, 100, 60, state=UNDONE)]).rows == 100


def test_what_nobody_has_built_has_no_known_cost():
    assert estimate(days(1), []).cells() == ("unknown", "unknown", "unknown")


@pytest.mark.parametrize(
    ("slots", "runs", "expected"), [(2, 4, 1), (1, 4, 1), (0, 4, 1), (5, 4, 4), (5, 16, 4), (4, 1, 1)]
)
def test_one_slot_is_left_to_the_daily_runs(slots, runs, expected):
    assert room(slots, runs) == expected


def test_only_planned_intervals_are_between_the_ends_of_a_row():
    found = rows(steps(BRONZE_NAME, 5, 1, 2, 7, 4))
    assert [[one.interval for one in row] for row in found] == [days(1, 2), days(4, 5), days(7)]


def test_what_lost_its_input_is_not_started():
    before = [Outcome(steps(BRONZE_NAME, 1)[0]), Outcome(steps(BRONZE_NAME, 2)[0], "audit failed: gate")]
    found, skipped = reachable(steps(SILVER_NAME, 1, 2), [BRONZE_NAME], before)
    assert found == steps(SILVER_NAME, 1)
    assert [(one.step.interval, one.wrong) for one in skipped] == [
        (day(2), "not started, for bronze.events was not built")
    ]
    further, lost = reachable(steps(GOLD_NAME, 1, 2), [SILVER_NAME], [*before, *skipped])
    assert further == steps(GOLD_NAME, 1)
    assert [one.step.interval for one in lost] == [day(2)]


def test_the_plan_has_a_row_for_each_dataset_and_reason_and_their_sum(tmp_path):
    plan = Plan((*steps(BRONZE_NAME, 1, 2), *steps(SILVER_NAME, 1, 2, 4, why="bronze.events is built again")))
    known = {BRONZE_NAME: [measured(1, 100, 60)], SILVER_NAME: []}
    found = rows_of(plan, contracts(tmp_path), known)
    assert found == [
        ("bronze.events", "2", "2026-01-01 to 2026-01-02", "missing", "200", "20 KB", "2.0"),
        (
            *("silver.events", "3", "2026-01-01 to 2026-01-02, 2026-01-04", "bronze.events is built again"),
            *("unknown", "unknown", "unknown"),
        ),
        ("all", "5", "", "", "unknown", "unknown", "unknown"),
    ]


def test_progress_counts_runs_by_state():
    assert progress(SILVER_NAME, ["success", "running", "queued", "queued"]) == (
        "silver.events: 1 of 4 done: 2 queued, 1 running, 1 success"
    )


def test_the_verdict_names_dataset_and_interval_of_whatever_is_not_there(tmp_path):
    known = contracts(tmp_path)
    lacks = "bronze.events does not hold it"
    blocked = [Blocked(one, lacks, BRONZE_NAME) for one in steps(SILVER_NAME, 3, 4)]
    plan = Plan(tuple(steps(BRONZE_NAME, 1, 2)), tuple(blocked))
    outcomes = [Outcome(steps(BRONZE_NAME, 1)[0]), Outcome(steps(BRONZE_NAME, 2)[0], "audit failed: 3 rows too few")]
    told = verdict(outcomes, plan, known)
    assert told is not None
    assert told.startswith("3 of 4 intervals are not built: bronze.events 2026-01-02: audit failed: 3 rows too few; ")
    (line,) = lacking(plan, known)
    assert line in told
    assert line == (
        f"silver.events 2026-01-03 to 2026-01-04 cannot be built: {lacks}; "
        "first: lakehouse backfill bronze.events -s 2026-01-03 -e 2026-01-04 --upstream"
    )


def test_an_input_whose_contract_is_wrong_is_to_be_checked_first(tmp_path):
    known = {name: one for name, one in contracts(tmp_path).items() if name != BRONZE_NAME}
    (line,) = lacking(Plan(blocked=(Blocked(steps(SILVER_NAME, 3)[0], "it lacks", BRONZE_NAME),)), known)
    assert line.endswith("; first: lakehouse contracts check")


def test_there_is_no_verdict_where_all_is_there(tmp_path):
    done = [Outcome(one) for one in steps(BRONZE_NAME, 1, 2)]
    assert verdict(done, Plan(tuple(one.step for one in done)), contracts(tmp_path)) is None
