"""Whose turn it is in a channel of the outbox, and when a message has had its last one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

FIRST_RETRY = timedelta(seconds=5)
SLOWEST_RETRY = timedelta(minutes=5)
SLOWEST_REFUSED = timedelta(hours=1)
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
    overtaken: bool = False  # the channel has taken a later message

    @property
    def pause(self) -> timedelta:
        """How long to wait after one more try that failed."""
        slowest = SLOWEST_REFUSED if self.refused else SLOWEST_RETRY
        return min(FIRST_RETRY * (1 << min(self.tries, 16)), slowest)

    def tried_long(self, now: datetime) -> bool:
        return self.tries >= MANY and now - self.created_at >= LONG

    def gives_up(self, now: datetime) -> bool:
        """Whether no further try makes sense: it failed for long, and the channel took later ones meanwhile.

        A channel that takes nothing at all is down or wrongly set, and gets everything once it works again.
        """
        return self.overtaken and self.tried_long(now)

    def stands_aside(self, now: datetime) -> bool:
        """Whether messages of other alerts may go before it."""
        return self.refused or self.gives_up(now)


def next_turn(waiting: Sequence[Waiting], now: datetime) -> Waiting | None:
    """The message to send now; None while there is none, or the channel must wait.

    In the order in which they came, for a channel that fails fails for all. One that stands aside holds up its own
    alert's others only, and has its turn when no other waits. Behind one that has failed for long the next in line is
    tried, too: the channel may be well, and only that message be one it cannot take.
    """
    firsts = sorted({one.alert_id: one for one in reversed(waiting)}.values(), key=lambda one: one.id)
    in_line = [one for one in firsts if not one.stands_aside(now)]
    if not in_line:
        return next((one for one in firsts if one.next_try_at <= now), None)
    tried = in_line[:2] if in_line[0].tried_long(now) else in_line[:1]
    return next((one for one in tried if one.next_try_at <= now), None)


def next_try(failed: Waiting, waiting: Sequence[Waiting], now: datetime) -> datetime:
    """When a message that failed is tried again: never before one that came before it and waits as it does."""
    before = [one.next_try_at for one in waiting if one.id < failed.id and one.refused <= failed.refused]
    return max([now + failed.pause, *before])
