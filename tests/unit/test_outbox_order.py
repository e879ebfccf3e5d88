"""Whose turn it is in a channel."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.ledger.outbox_order import MANY, Waiting, next_try, next_turn

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


def test_behind_one_that_failed_for_a_day_the_next_is_tried_and_no_more():
    head = waiting(1, "a", **old(next_try_at=LATER))
    assert turn(head, waiting(2, "b"), waiting(3, "c")) == 2
    assert turn(head, waiting(2, "b", next_try_at=LATER), waiting(3, "c")) is None
    young = old(next_try_at=LATER, created_at=NOW - timedelta(hours=23))
    assert turn(waiting(1, "a", **young), waiting(2, "b")) is None


def test_after_a_long_time_down_the_first_is_first_again():
    head, probe = waiting(1, "a", **old(next_try_at=LATER)), waiting(2, "b", tries=1)
    again = next_try(probe, [head, probe], NOW)
    assert again == LATER
    assert turn(head, waiting(2, "b", tries=2, next_try_at=again), now=LATER) == 1


def test_one_that_was_overtaken_after_a_day_of_tries_holds_up_nobody():
    head = waiting(1, "a", **old(next_try_at=LATER, overtaken=True))
    assert turn(head, waiting(2, "b", next_try_at=LATER), waiting(3, "c")) is None
    assert turn(head, waiting(2, "b")) == 2


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
    failed = waiting(1, "a", **given)
    assert next_try(failed, [failed], NOW) == NOW + timedelta(seconds=seconds)


def test_a_refused_one_that_is_tried_rarely_does_not_slow_down_the_others():
    refused, failed = waiting(1, "a", refused=True, next_try_at=LATER), waiting(2, "b")
    assert next_try(failed, [refused, failed], NOW) == NOW + timedelta(seconds=5)
    assert next_try(waiting(2, "b", refused=True), [refused, failed], NOW) == LATER


def test_one_is_given_up_when_it_was_tried_for_a_day_and_others_passed():
    assert waiting(1, "a", **old(overtaken=True)).gives_up(NOW)
    assert not waiting(1, "a", **old()).gives_up(NOW)
    assert not waiting(1, "a", **old(overtaken=True, tries=MANY - 1)).gives_up(NOW)
    assert not waiting(1, "a", **old(overtaken=True, created_at=NOW)).gives_up(NOW)
