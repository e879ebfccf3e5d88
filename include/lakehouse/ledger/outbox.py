"""The outbox: messages that must leave, each channel's in order, until they have left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Executable, false, func, select, update
from sqlalchemy.dialects.postgresql import insert

from lakehouse.ledger.database import engine, outbox
from lakehouse.ledger.outbox_order import Waiting, next_try, next_turn

log = logging.getLogger(__name__)
_SENDING_LOCK = 731_654_202
_waits = outbox.c.delivered_at.is_(None) & outbox.c.failed_at.is_(None)


class NotDelivered(Exception):
    """The channel did not take the message; the sentence says why and holds no secret."""


class Refused(NotDelivered):
    """The channel works, and said no to this message: others must not wait behind it."""


@dataclass(frozen=True)
class Message:
    """One event of one alert, for one channel."""

    alert_id: str
    event: str
    channel: str
    payload: dict[str, Any]


@dataclass(frozen=True)
class Backlog:
    """What waits in one channel: how much, when it is tried again, and what went wrong last."""

    channel: str
    messages: int
    next_try_at: datetime
    error: str


@dataclass(frozen=True)
class Delivery:
    """How one event of one alert fared in one channel."""

    channel: str
    tries: int
    error: str
    next_try_at: datetime
    delivered_at: datetime | None
    failed_at: datetime | None

    @property
    def state(self) -> str:
        return "delivered" if self.delivered_at else "set aside" if self.failed_at else "waiting"


@dataclass(frozen=True)
class Event:
    """One event of one alert, and how it fared in each of its channels."""

    payload: dict[str, Any]
    created_at: datetime
    deliveries: tuple[Delivery, ...]


def changed(change: Executable, messages: Collection[Message], now: datetime) -> bool:
    """Make a change together with the messages that tell of it; False, and nothing done, where it returns no row."""
    with engine().begin() as connection:
        if connection.execute(change).first() is None:
            return False
        add(connection, messages, now)
    return True


def add(connection: Connection, messages: Collection[Message], now: datetime) -> None:
    """Put messages in, within the transaction that makes them true."""
    rows = [{**vars(message), "created_at": now, "next_try_at": now} for message in messages]
    if rows:
        # A ledger of an earlier version may have told of it already.
        connection.execute(insert(outbox).on_conflict_do_nothing(), rows)


def channels_of(alert_id: str) -> list[str]:
    """The channels that an alert's opening went to, or will; those are told when it closes."""
    opened = outbox.c.alert_id == alert_id, outbox.c.event == "opened", outbox.c.failed_at.is_(None)
    with engine().connect() as connection:
        return list(connection.scalars(select(outbox.c.channel).where(*opened).order_by(outbox.c.id)))


def send_next(channel: str, send: Callable[[dict[str, Any]], None], now: datetime) -> bool:
    """Try the message whose turn it is; False when there is none, the channel must wait, or another process sends.

    The message is marked after it was sent: a crash in between sends it twice rather than never.
    """
    with engine().begin() as connection:
        if not connection.scalar(select(func.pg_try_advisory_xact_lock(_SENDING_LOCK, func.hashtext(channel)))):
            return False
        waiting = _waiting(connection, channel)
        turn = next_turn(waiting, now)
        if turn is None:
            return False
        payload = connection.scalars(select(outbox.c.payload).where(outbox.c.id == turn.id)).one()
        error = tried(send, payload)
        result = (
            _failed(connection, channel, turn, waiting, error, now) if error else {"delivered_at": now, "error": ""}
        )
        connection.execute(update(outbox).where(outbox.c.id == turn.id).values(tries=turn.tries + 1, **result))
    return True


def tried(send: Callable[[dict[str, Any]], None], payload: dict[str, Any]) -> NotDelivered | None:
    """Send, and give back what went wrong, whatever it was."""
    try:
        send(payload)
    except NotDelivered as error:
        return error
    except Exception as error:  # noqa: BLE001  whatever a channel raises, the alert has not arrived
        # Its text could hold an address. Another message may well pass.
        return Refused(f"the channel failed with {type(error).__name__}")
    return None


def backlog() -> list[Backlog]:
    """The channels in which messages wait."""
    columns = outbox.c.channel, outbox.c.next_try_at, outbox.c.error
    with engine().connect() as connection:
        rows = connection.execute(select(*columns).where(_waits).order_by(outbox.c.channel, outbox.c.id)).all()
    return [_backlog(channel, list(waiting)) for channel, waiting in groupby(rows, key=lambda row: row.channel)]


def drop(channel: str, now: datetime) -> int:
    """Set aside all that waits for a channel which is no more; how many messages that were."""
    dropped = update(outbox).where(_waits, outbox.c.channel == channel).values(failed_at=now, error="dropped by hand")
    with engine().begin() as connection:
        return connection.execute(dropped).rowcount


def recent(limit: int) -> list[Event]:
    """The newest events, newest first, each with its deliveries."""
    key = outbox.c.alert_id, outbox.c.event
    newest = select(*key, func.max(outbox.c.id).label("last")).group_by(*key).order_by(func.max(outbox.c.id).desc())
    chosen = newest.limit(limit).subquery()
    rows = (
        select(outbox, chosen.c.last)
        .join(chosen, (outbox.c.alert_id == chosen.c.alert_id) & (outbox.c.event == chosen.c.event))
        .order_by(chosen.c.last.desc(), outbox.c.id)
    )
    found: dict[int, list[Any]] = {}
    with engine().connect() as connection:
        for row in connection.execute(rows):
            found.setdefault(row.last, []).append(row)
    return [_event(deliveries) for deliveries in found.values()]


def _failed(
    connection: Connection, channel: str, turn: Waiting, waiting: list[Waiting], error: NotDelivered, now: datetime
) -> dict[str, object]:
    """What becomes of a message that was not taken."""
    failed = replace(turn, refused=isinstance(error, Refused))
    if not replace(failed, tries=turn.tries + 1).gives_up(now):
        return {"next_try_at": next_try(failed, waiting, now), "error": str(error), "refused": failed.refused}
    _set_aside(connection, channel, turn, error, now)
    return {"failed_at": now, "error": str(error)}


def _set_aside(connection: Connection, channel: str, turn: Waiting, error: NotDelivered, now: datetime) -> None:
    """Tell it, and leave out the recovery, which would tell of something that was never heard of."""
    days = (now - turn.created_at) / timedelta(days=1)
    log.error(
        "alert %s is set aside: %s did not take it in %d tries over %.1f d; %s",
        *(turn.alert_id, channel, turn.tries + 1, days, error),
    )
    behind = _waits, outbox.c.channel == channel, outbox.c.alert_id == turn.alert_id, outbox.c.id > turn.id
    told = "its opening was set aside"
    connection.execute(update(outbox).where(*behind).values(failed_at=now, error=told))


def _waiting(connection: Connection, channel: str) -> list[Waiting]:
    taken = select(func.max(outbox.c.id)).where(outbox.c.channel == channel, outbox.c.delivered_at.is_not(None))
    columns = [outbox.c[name] for name in ("id", "alert_id", "created_at", "next_try_at", "tries")]
    flags = (
        func.coalesce(outbox.c.refused, false()).label("refused"),
        func.coalesce(outbox.c.id < taken.scalar_subquery(), false()).label("overtaken"),
    )
    rows = connection.execute(select(*columns, *flags).where(_waits, outbox.c.channel == channel).order_by(outbox.c.id))
    return [Waiting(**row._mapping) for row in rows]


def _backlog(channel: str, rows: list[Any]) -> Backlog:
    tried = [row for row in rows if row.error] or rows
    return Backlog(channel, len(rows), min(row.next_try_at for row in tried), tried[0].error)


def _event(rows: list[Any]) -> Event:
    names = ("channel", "tries", "error", "next_try_at", "delivered_at", "failed_at")
    deliveries = tuple(Delivery(**{name: getattr(row, name) for name in names}) for row in rows)
    return Event(rows[0].payload, rows[0].created_at, deliveries)
