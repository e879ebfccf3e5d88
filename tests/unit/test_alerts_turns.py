"""Whose turn it is in a channel."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.ledger.turns import MANY, Waiting, gives_up, next_turn

NOW = datetime(2026, 11, 16, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


def waiting(number: int, alert: str, **given: object) -> Waiting:
    base = {"created_at": NOW, "next_try_at": NOW}
    return Waiting(number, alert, **{**base, **given})


def turn(*messages: Waiting, now: datetime = NOW) -> int | None:
    found = next_turn(messages, now)
    return found and found.id


def old(**given: object) -> dict[str, object]:
    return {"created_at": NOW - timedelta(days=1), "tries": MANY, **given}


def test_messages_go_in_the_order_in_which_they_came():
    assert turn() is None
    assert turn(waiting(1, "a"), waiting(2, "b"), waiting(3, "a")) == 1


def test_all_wait_behind_one_that_must_wait():
    assert turn(waiting(1, "a", next_try_at=LATER, tries=1), waiting(2, "b")) is None
    assert turn(waiting(1, "a", next_try_at=LATER, tries=1), waiting(2, "b"), now=LATER) == 1


def test_a_refused_one_holds_up_its_own_alert_only():
    refused = waiting(1, "a", refused=True, tries=1, next_try_at=LATER)
    assert turn(refused, waiting(2, "a"), waiting(3, "b")) == 3
    assert turn(refused, waiting(2, "a")) is None
    assert turn(refused, waiting(2, "a"), now=LATER) == 1


def test_a_refused_one_is_tried_after_those_that_can_go():
    refused = waiting(1, "a", refused=True, tries=1)
    assert turn(refused, waiting(2, "b")) == 2
    assert turn(refused) == 1


def test_while_the_channel_must_wait_no_refused_one_is_tried():
    assert turn(waiting(1, "a", refused=True, tries=1), waiting(2, "b", next_try_at=LATER, tries=3)) is None


def test_one_that_failed_for_a_day_holds_up_nobody():
    assert turn(waiting(1, "a", **old(next_try_at=LATER)), waiting(2, "b")) == 2
    young = old(next_try_at=LATER, created_at=NOW - timedelta(hours=23))
    assert turn(waiting(1, "a", **young), waiting(2, "b")) is None


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"tries": 0}, 5),
        ({"tries": 3}, 40),
        ({"tries": 50}, 300),
        ({"tries": 50, "refused": True}, 3600),
    ],
)
def test_tries_are_ever_further_apart_up_to_a_bound(given, seconds):
    assert waiting(1, "a", **given).pause(NOW) == timedelta(seconds=seconds)


def test_one_is_given_up_when_it_was_tried_for_a_day_and_others_passed():
    assert gives_up(waiting(1, "a", **old()), NOW, overtaken=True)
    assert not gives_up(waiting(1, "a", **old()), NOW, overtaken=False)
    assert not gives_up(waiting(1, "a", **old(tries=MANY - 1)), NOW, overtaken=True)
    assert not gives_up(waiting(1, "a", **old(created_at=NOW)), NOW, overtaken=True)
