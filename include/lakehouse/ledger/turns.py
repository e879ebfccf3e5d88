"""Whose turn it is in a channel of the outbox, and when a message has had its last one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

FIRST_RETRY = timedelta(seconds=5)
SLOWEST_RETRY = timedelta(minutes=5)
SLOWEST_ASIDE = timedelta(hours=1)
LONG, MANY = timedelta(days=1), 10


@dataclass(frozen=True)
class Waiting:
    """A message that has not left, as far as its turn depends on it."""

    id: int
    alert_id: str
    created_at: datetime
    next_try_at: datetime
    tries: int = 0
    refused: bool = False

    def tried_long(self, now: datetime) -> bool:
        return self.tries >= MANY and now - self.created_at >= LONG

    def stands_aside(self, now: datetime) -> bool:
        """Whether messages of other alerts may go before it: it is refused, or has failed for long."""
        return self.refused or self.tried_long(now)

    def pause(self, now: datetime) -> timedelta:
        """How long to wait after one more try that failed."""
        slowest = SLOWEST_ASIDE if self.stands_aside(now) else SLOWEST_RETRY
        return min(FIRST_RETRY * (1 << min(self.tries, 16)), slowest)


def next_turn(waiting: Sequence[Waiting], now: datetime) -> Waiting | None:
    """The message to send now; None while there is none, or the channel must wait.

    In the order in which they came, for a channel that fails fails for all. A message that stands aside holds up its
    own alert's others only, and has its turn when no other waits.
    """
    firsts = sorted({one.alert_id: one for one in reversed(waiting)}.values(), key=lambda one: one.id)
    in_line = [one for one in firsts if not one.stands_aside(now)]
    if in_line:
        return in_line[0] if in_line[0].next_try_at <= now else None
    return next((one for one in firsts if one.next_try_at <= now), None)


def gives_up(tried: Waiting, now: datetime, overtaken: bool) -> bool:
    """Whether a message that failed once more is set aside: only where the channel took a later one meanwhile.

    A channel that takes nothing at all is down or wrongly set, and gets everything once it works again.
    """
    return overtaken and tried.tried_long(now)
