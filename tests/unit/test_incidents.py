"""One alert for a root, and silence for what waits behind it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.causes import Cause
from lakehouse.incidents import covering, is_muted, may_catch_up, same_trouble, silent_behind, teller
from lakehouse.intervals import Interval
from lakehouse.sla import Kind, Miss

DAY = Interval(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
NEXT = Interval(DAY.end, DAY.end + timedelta(days=1))
NOW = DAY.end + timedelta(hours=2)


def miss(dataset: str, root: str = "", interval: Interval = DAY, **given: object) -> Miss:
    told = {"cause": Cause.SENSOR_WAITING, "root": root or dataset, "told_at": NOW, "severity": "warning", **given}
    known = {"root_interval": str(interval), **told}
    return Miss(dataset, interval, interval.end, NOW, **known)


BRONZE = miss("bronze.a")


def test_what_waits_for_a_root_is_told_by_the_roots_alert():
    assert covering(miss("gold.g", root="bronze.a"), [BRONZE]) == BRONZE


def test_an_input_on_the_way_to_the_root_tells_of_it_too_whatever_the_root_is_now():
    behind = miss("gold.g", root="airflow-triggerer", root_interval="", path=(("bronze.a", str(DAY)),))
    assert covering(behind, [BRONZE]) == BRONZE


def test_an_alert_that_nobody_was_told_of_covers_nothing():
    assert covering(miss("gold.g", root="bronze.a"), [replace(BRONZE, told_at=None)]) is None


def test_another_day_is_another_alert():
    assert covering(miss("gold.g", root="bronze.a", interval=NEXT), [BRONZE]) is None


def test_two_that_wait_for_the_same_root_without_an_alert_of_its_own_share_one():
    first, second = miss("silver.a", root="bronze.a"), miss("silver.b", root="bronze.a")
    assert covering(second, [first]) == first


def test_the_root_itself_joins_the_alert_that_has_named_it():
    assert covering(BRONZE, [miss("silver.a", root="bronze.a")]) is not None


def test_everything_that_one_service_holds_up_is_one_alert_whatever_the_day():
    first = miss("bronze.a", root="catalog", root_interval="")
    assert covering(miss("bronze.b", root="catalog", root_interval="", interval=NEXT), [first]) == first


def test_a_miss_does_not_cover_itself():
    assert covering(BRONZE, [BRONZE]) is None


def test_a_stale_table_is_no_second_alert_beside_its_late_interval():
    stale = miss("bronze.a", interval=NEXT, kind=Kind.FRESH)
    assert covering(stale, [BRONZE]) == BRONZE
    quiet = replace(BRONZE, told_at=None)
    assert covering(stale, [quiet]) is None
    assert silent_behind(stale, [quiet]) == quiet
    assert silent_behind(miss("bronze.b", kind=Kind.FRESH), [quiet]) is None
    assert silent_behind(miss("bronze.a"), [quiet]) is None


def test_the_watchs_own_silence_is_always_an_alert_of_its_own():
    silent = miss("lakehouse.watch", root="bronze.a", kind=Kind.HEARTBEAT)
    assert covering(silent, [BRONZE]) is None


def test_a_mute_counts_for_the_dataset_and_for_what_waits_behind_it():
    assert is_muted(BRONZE, ["bronze.a"])
    assert is_muted(miss("gold.g", root="bronze.a"), ["bronze.a"])
    assert not is_muted(miss("gold.g", root="bronze.b"), ["bronze.a"])


@pytest.mark.parametrize(
    ("cause", "freed", "within", "quiet"),
    [
        (Cause.TASK_RUNNING, NOW - timedelta(minutes=15), None, True),
        (Cause.TASK_RUNNING, NOW - timedelta(minutes=16), None, False),
        (Cause.TASK_RUNNING, NOW - timedelta(minutes=59), timedelta(hours=1), True),
        (Cause.SENSOR_WAITING, NOW - timedelta(minutes=1), timedelta(seconds=5), True),
        (Cause.TASK_FAILED, NOW, timedelta(hours=1), False),
        (Cause.DAG_PAUSED, NOW, timedelta(hours=1), False),
        (Cause.TASK_RUNNING, None, timedelta(hours=1), False),
    ],
)
def test_once_its_root_is_there_a_dataset_gets_its_time_to_catch_up_unless_it_is_stuck(cause, freed, within, quiet):
    waits = miss("gold.g", root="bronze.a", cause=cause, told_at=None, freed_at=freed)
    assert may_catch_up(waits, within, NOW) is quiet


def test_a_graver_miss_is_not_hidden_behind_a_lighter_alert():
    light = miss("bronze.a", root="catalog", root_interval="", severity="info")
    grave = miss("gold.g", root="catalog", root_interval="", severity="critical")
    assert covering(grave, [light]) is None
    assert covering(light, [grave]) == grave


def test_of_those_that_a_service_holds_up_the_gravest_is_told_and_of_a_datasets_the_root():
    held = [
        miss(f"bronze.{n}", root="catalog", root_interval="", severity=s) for n, s in (("a", "info"), ("b", "critical"))
    ]
    assert teller(held).dataset == "bronze.b"
    assert teller([miss("gold.g", root="bronze.a", severity="critical"), BRONZE]) == BRONZE


def test_misses_with_the_same_root_are_one_trouble_and_stale_tables_come_last():
    stale = miss("bronze.a", kind=Kind.FRESH)
    behind, other = miss("gold.g", root="bronze.a"), miss("bronze.b")
    assert same_trouble([stale, BRONZE, other, behind]) == [[BRONZE, behind], [other], [stale]]


def test_a_paused_dag_is_one_alert_however_many_intervals_it_lacks_and_a_late_file_is_one_each():
    paused = miss("bronze.a", cause=Cause.DAG_PAUSED)
    assert covering(miss("bronze.a", interval=NEXT, cause=Cause.DAG_PAUSED), [paused]) == paused
    assert covering(miss("bronze.a", interval=NEXT), [BRONZE]) is None
