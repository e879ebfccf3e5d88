"""Promises and misses in the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import OperationalError

from lakehouse.causes import Cause
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval
from lakehouse.ledger import outbox
from lakehouse.ledger.database import engine, sla_misses, sla_promises
from lakehouse.ledger.outbox import Message
from lakehouse.sla import Kind, Miss

Promise = tuple[str, Kind]
_LOOK_LOCK = 7_316_542_003
_LONGEST_LOOK = "5min"
# What may change as long as nobody was told.
_SEEN = ("cause", "detail", "root", "root_interval", "behind", "freed_at", "told_at", "told")


class Busy(LakehouseError):
    """Another look is under way."""


@contextmanager
def alone() -> Iterator[None]:
    """One look at a time, whoever looks: which misses get an alert depends on those that have one.

    The lock is not held in a transaction, as a look takes a while where a service does not answer; and it is lost after
    some minutes, lest a process that was stopped in the middle keep all others from looking.
    """
    with engine().connect() as connection:
        connection.execute(text(f"SET idle_session_timeout = '{_LONGEST_LOOK}'"))
        try:
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOOK_LOCK})
        except OperationalError as error:
            raise Busy("another look has been under way for a minute; asking again") from error
        connection.commit()
        try:
            yield
        finally:
            # The session ends with its lock and its timeout, rather than go back to the others of the pool.
            connection.invalidate()


def agree(promised: Mapping[Promise, str], now: datetime, keep: Collection[str] = ()) -> dict[Promise, datetime]:
    """Since when each promise is in force. One that is new or has changed is so from now on.

    One that nobody makes any more is forgotten, but for datasets to `keep`: made again, it is new.
    """
    rows = [
        {"dataset": dataset, "kind": kind, "promise": told, "since": now} for (dataset, kind), told in promised.items()
    ]
    new = insert(sla_promises)
    changed = new.on_conflict_do_update(
        index_elements=[sla_promises.c.dataset, sla_promises.c.kind],
        set_={"promise": new.excluded.promise, "since": new.excluded.since},
        where=sla_promises.c.promise != new.excluded.promise,
    )
    made = {*keep, *(dataset for dataset, _ in promised)}
    with engine().begin() as connection:
        if rows:
            connection.execute(changed, rows)
        connection.execute(delete(sla_promises).where(sla_promises.c.dataset.not_in(made)))
    return agreed()


def agreed() -> dict[Promise, datetime]:
    """Since when each promise that was ever watched is in force."""
    with engine().connect() as connection:
        rows = connection.execute(select(sla_promises)).all()
    return {(row.dataset, Kind(row.kind)): row.since for row in rows}


def open_misses() -> list[Miss]:
    """The misses that are not over, oldest first."""
    statement = select(sla_misses).where(sla_misses.c.closed_at.is_(None)).order_by(sla_misses.c.due_at)
    with engine().connect() as connection:
        return [_miss(row) for row in connection.execute(statement)]


def record(miss: Miss, messages: Collection[Message] = ()) -> bool:
    """Keep a miss as it is seen now, with its messages; False, and nothing done, when it has been told or is over."""
    row = _row(miss)
    seen = {name: row[name] for name in _SEEN}
    kept = (
        insert(sla_misses)
        .values(row)
        .on_conflict_do_update(
            index_elements=["dataset", "interval_start", "kind"],
            set_=seen,
            where=sla_misses.c.told_at.is_(None) & sla_misses.c.closed_at.is_(None),
        )
        .returning(sla_misses.c.alert_id)
    )
    return outbox.changed(kept, messages, miss.told_at or miss.opened_at)


def close(miss: Miss, messages: Collection[Message], now: datetime) -> bool:
    """Record that the miss is over, with its messages; False, and nothing done, when it was over already."""
    closed = (
        update(sla_misses)
        .where(sla_misses.c.alert_id == miss.alert_id, sla_misses.c.closed_at.is_(None))
        .values(closed_at=now)
        .returning(sla_misses.c.alert_id)
    )
    return outbox.changed(closed, messages, now)


def closed_at(alert_ids: Collection[str]) -> dict[str, datetime]:
    """When these alerts were closed, of those that are."""
    over = sla_misses.c.closed_at.is_not(None)
    statement = select(sla_misses.c.alert_id, sla_misses.c.closed_at).where(sla_misses.c.alert_id.in_(alert_ids), over)
    with engine().connect() as connection:
        return {row.alert_id: row.closed_at for row in connection.execute(statement)}


def _row(miss: Miss) -> dict[str, Any]:
    return {
        "alert_id": miss.alert_id,
        "dataset": miss.dataset,
        "interval_start": miss.interval.start,
        "interval_end": miss.interval.end,
        "kind": str(miss.kind),
        "due_at": miss.due,
        "opened_at": miss.opened_at,
        "cause": str(miss.cause) if miss.cause else None,
        "detail": miss.detail,
        "root": miss.root,
        "root_interval": miss.root_interval,
        "behind": miss.behind,
        "freed_at": miss.freed_at,
        "told_at": miss.told_at,
        "told": {"severity": miss.severity, "blocks": list(miss.blocks), "link": miss.link} if miss.told_at else None,
    }


def _miss(row: Any) -> Miss:
    told = row.told or {}
    return Miss(
        dataset=row.dataset,
        interval=Interval(row.interval_start, row.interval_end),
        due=row.due_at,
        opened_at=row.opened_at,
        kind=Kind(row.kind),
        cause=Cause(row.cause) if row.cause in list(Cause) else None,
        detail=row.detail or "",
        root=row.root or "",
        root_interval=row.root_interval or "",
        behind=row.behind or "",
        freed_at=row.freed_at,
        told_at=row.told_at,
        known_as=row.alert_id,
        severity=told.get("severity", "critical"),
        blocks=tuple(told.get("blocks", ())),
        link=told.get("link", ""),
    )
