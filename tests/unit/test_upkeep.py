"""Which tables on-call is told of: those that are worn after maintenance had its turn, and whose turns are late."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.alerts import Story, closing, opening
from lakehouse.causes import Cause
from lakehouse.contracts import contract
from lakehouse.contracts.sla import Sla
from lakehouse.upkeep import LATE, Turn, Upkeep, severity, troubles

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ORDERS = contract("silver.orders")
SMALL = {"small_files": "80% of 120 files are small"}


def seen(**given: object) -> Upkeep:
    known = {"contracts": {ORDERS.dataset: ORDERS}, "measured": {}, "turns": {}, "since": {}, "now": NOW}
    return Upkeep(**{**known, **given})


def turn(begun: timedelta, ended: timedelta | None, done: timedelta | None, outcome: str = "done") -> Turn:
    """By how long ago each was."""
    times = (NOW - one if one is not None else None for one in (begun, ended, done))
    return Turn(ORDERS.dataset, *times, outcome)


def tier(name: str) -> dict[str, object]:
    kept = ORDERS.maintenance.model_copy(update={"tier": name})
    return {ORDERS.dataset: ORDERS.model_copy(update={"maintenance": kept})}


def test_each_concern_of_each_table_of_a_dataset_is_one_trouble():
    measured = {
        "silver.orders": (NOW - HOUR, {**SMALL, "deletes": "2 GB of deletes"}),
        "quarantine.silver_orders": (NOW - HOUR, SMALL),
        "silver.of_no_contract": (NOW - HOUR, SMALL),
    }
    found = {(one.table, one.kind): one for one in troubles(seen(measured=measured))}
    assert sorted(found) == [
        ("quarantine.silver_orders", "small_files"),
        ("silver.orders", "deletes"),
        ("silver.orders", "small_files"),
    ]
    assert {one.dataset for one in found.values()} == {"silver.orders"}
    assert len({one.alert_id for one in found.values()}) == 3


def test_a_trouble_that_comes_again_is_another_alert_and_one_that_is_known_keeps_its_id():
    first, again = (next(troubles(seen(measured={"silver.orders": (at, SMALL)}))) for at in (NOW - DAY, NOW))
    assert first.alert_id != again.alert_id
    assert replace(again, known_as=first.alert_id).alert_id == first.alert_id


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (turn(HOUR, None, None, "begun"), True),
        (turn(HOUR, 2 * HOUR, None), True),  # it ended before: this one is a new turn
        (turn(2 * HOUR, HOUR, HOUR), False),
        (turn(13 * HOUR, None, None, "begun"), False),  # killed, most likely
    ],
)
def test_what_maintenance_is_about_to_mend_is_marked(last, expected):
    assert last.under_way(NOW) is expected
    (found,) = troubles(seen(measured={"silver.orders": (NOW, SMALL)}, turns={ORDERS.dataset: last}))
    assert found.under_way is expected


@pytest.mark.parametrize(
    ("name", "allowed"), [("hot", 4 * HOUR), ("daily", 50 * HOUR), ("weekly", 14 * DAY + 2 * HOUR)]
)
def test_maintenance_is_late_when_no_turn_has_ended_well_for_two_of_its_tier(name, allowed):
    def late(since: timedelta, **given: object) -> list[str]:
        asked = seen(contracts=tier(name), since={ORDERS.dataset: NOW - since}, **given)
        return [one.kind for one in troubles(asked)]

    minute = timedelta(minutes=1)
    assert late(allowed) == []
    assert late(allowed + minute) == [LATE]
    assert late(allowed + minute, only_at_night=True) == []
    done = {ORDERS.dataset: turn(allowed, allowed, allowed)}
    assert late(30 * DAY, turns=done) == []
    put_off = {ORDERS.dataset: turn(HOUR, HOUR, allowed + minute, "put off: it is being written by a run")}
    assert late(30 * DAY, turns=put_off) == [LATE]
    assert late(HOUR, turns=put_off) == [], "before the promise was seen nothing was due"


def test_what_is_late_is_told_with_how_the_last_turn_ended():
    failed = {ORDERS.dataset: turn(HOUR, HOUR, None, "failed: Spark does not answer")}
    (found,) = troubles(seen(since={ORDERS.dataset: NOW - 30 * DAY}, turns=failed))
    assert found.detail == "failed: Spark does not answer"
    (found,) = troubles(seen(since={ORDERS.dataset: NOW - 30 * DAY}))
    assert found.detail == "maintenance_daily has never looked at it"


def test_a_dataset_without_a_promise_is_never_late():
    assert list(troubles(seen(since={}))) == []


@pytest.mark.parametrize(("given", "told"), [("critical", "warning"), ("warning", "warning"), ("info", "info")])
def test_nobody_is_woken_for_a_table_that_is_worn(given, told):
    sla = Sla.model_validate({"ready_within": "1h", "severity": given})
    assert severity(ORDERS.model_copy(update={"sla": sla})) == told


def story(**given: object) -> Story:
    base = {"alert_id": "upkeep-1", "severity": "warning", "due": NOW, "opened_at": NOW + HOUR, "contract": ORDERS}
    return Story(**{**base, "dataset": "silver.orders", "root": "silver.orders", **given})


def test_the_alert_of_a_worn_table_names_the_table_what_was_measured_and_what_to_try():
    worn = story(kind="health", table="quarantine.silver_orders", cause=Cause.TABLE_WORN, detail=SMALL["small_files"])
    found = opening(worn)
    assert found.summary == (
        "quarantine.silver_orders is worn (measured 2026-11-16 12:00 UTC): 80% of 120 files are small"
    )
    assert found.command == "lakehouse maintain quarantine.silver_orders --dry-run"
    assert (found.dataset, found.owner) == ("silver.orders", ORDERS.owner)
    assert closing(worn, "recovered", NOW + 2 * HOUR).summary == (
        "quarantine.silver_orders is healthy again, 2 h after it was found worn (2026-11-16 12:00 UTC)"
    )


def test_the_alert_of_late_maintenance_says_how_late_and_how_it_ended():
    late = story(kind="maintenance", cause=Cause.MAINTENANCE_LATE, detail="failed: Spark does not answer")
    found = opening(late)
    assert found.summary == (
        "maintenance of silver.orders is 1 h late (due 2026-11-16 12:00 UTC): no turn of it has ended well since then"
    )
    assert (found.detail, found.late_seconds) == ("failed: Spark does not answer", 3600)
    assert closing(late, "recovered", NOW + 2 * HOUR).summary.startswith("maintenance of silver.orders is done again")
