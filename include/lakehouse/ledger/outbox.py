"""The outbox: messages that must leave, each channel's in order, until they have left."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from lakehouse.ledger.database import engine, outbox

_SENDING_LOCK = 731_654_202
FIRST_RETRY = timedelta(seconds=5)
SLOWEST_RETRY = timedelta(minutes=5)


class NotDelivered(Exception):
    """The channel did not take the message; the sentence says why and holds no secret."""


@dataclass(frozen=True)
class Message:
    """One event of one alert, for one channel."""

    alert_id: str
    event: str
    channel: str
    payload: dict[str, Any]


@dataclass(frozen=True)
class Backlog:
    """What waits in one channel."""

    channel: str
    messages: int
    next_try_at: datetime
    error: str


def add(connection: Connection, messages: Collection[Message], now: datetime) -> None:
    """Put messages in, within the transaction that makes them true."""
    rows = [{**vars(message), "created_at": now, "next_try_at": now} for message in messages]
    if rows:
        connection.execute(insert(outbox), rows)


def send_next(channel: str, send: Callable[[dict[str, Any]], None], now: datetime) -> bool:
    """Send the channel's oldest message; False when there is none, it must wait, or another process is sending.

    The message is marked after it was sent: a crash in between sends it twice rather than never.
    """
    with engine().begin() as connection:
        if not connection.scalar(select(func.pg_try_advisory_xact_lock(_SENDING_LOCK, func.hashtext(channel)))):
            return False
        row = connection.execute(_waiting(channel).order_by(outbox.c.id).limit(1)).first()
        if row is None or row.next_try_at > now:
            return False
        try:
            send(row.payload)
        except NotDelivered as error:
            pause = min(FIRST_RETRY * 2 ** min(row.tries, 16), SLOWEST_RETRY)
            result = {"next_try_at": now + pause, "error": str(error)}
        else:
            result = {"delivered_at": now, "error": ""}
        connection.execute(update(outbox).where(outbox.c.id == row.id).values(tries=row.tries + 1, **result))
    return "delivered_at" in result


def backlog() -> list[Backlog]:
    """The channels in which messages wait."""
    found = []
    with engine().connect() as connection:
        waiting = outbox.c.delivered_at.is_(None)
        counts = select(outbox.c.channel, func.count()).where(waiting).group_by(outbox.c.channel)
        for channel, messages in connection.execute(counts).all():
            first = connection.execute(_waiting(channel).order_by(outbox.c.id).limit(1)).first()
            if first:
                found.append(Backlog(channel, messages, first.next_try_at, first.error))
    return found


def _waiting(channel: str) -> Any:
    return select(outbox).where(outbox.c.channel == channel, outbox.c.delivered_at.is_(None))
