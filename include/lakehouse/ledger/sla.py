"""SLA terms and misses in the ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert

from lakehouse.intervals import Interval
from lakehouse.ledger import outbox
from lakehouse.ledger.database import engine, sla_misses, sla_terms
from lakehouse.ledger.outbox import Message
from lakehouse.sla import Miss, Terms


def agree(promised: Mapping[str, timedelta], now: datetime) -> dict[str, Terms]:
    """The terms in force. A promise that is new or has changed is in force from now on."""
    rows = [
        {"dataset": dataset, "ready_within_s": int(within.total_seconds()), "since": now}
        for dataset, within in promised.items()
    ]
    new = insert(sla_terms)
    changed = new.on_conflict_do_update(
        index_elements=[sla_terms.c.dataset],
        set_={"ready_within_s": new.excluded.ready_within_s, "since": new.excluded.since},
        where=sla_terms.c.ready_within_s != new.excluded.ready_within_s,
    )
    with engine().begin() as connection:
        if rows:
            connection.execute(changed, rows)
    return terms()


def terms() -> dict[str, Terms]:
    """The terms of each dataset that was ever watched."""
    with engine().connect() as connection:
        rows = connection.execute(select(sla_terms)).all()
    return {row.dataset: Terms(timedelta(seconds=row.ready_within_s), row.since) for row in rows}


def open_misses() -> list[Miss]:
    """The misses that are not over, oldest first."""
    statement = select(sla_misses).where(sla_misses.c.closed_at.is_(None)).order_by(sla_misses.c.due_at)
    with engine().connect() as connection:
        return [_miss(row) for row in connection.execute(statement)]


def open_miss(miss: Miss, messages: Collection[Message]) -> bool:
    """Record the miss with its messages; False, and nothing done, when it is known already."""
    row = {
        "alert_id": miss.alert_id,
        "dataset": miss.dataset,
        "interval_start": miss.interval.start,
        "interval_end": miss.interval.end,
        "kind": miss.kind,
        "due_at": miss.due,
        "opened_at": miss.opened_at,
    }
    recorded = insert(sla_misses).values(row).on_conflict_do_nothing().returning(sla_misses.c.alert_id)
    with engine().begin() as connection:
        if connection.execute(recorded).first() is None:
            return False
        outbox.add(connection, messages, miss.opened_at)
    return True


def close_miss(miss: Miss, messages: Collection[Message], now: datetime) -> bool:
    """Record that the miss is over, with its messages; False, and nothing done, when it was over already."""
    closed = (
        update(sla_misses)
        .where(sla_misses.c.alert_id == miss.alert_id, sla_misses.c.closed_at.is_(None))
        .values(closed_at=now)
        .returning(sla_misses.c.alert_id)
    )
    with engine().begin() as connection:
        if connection.execute(closed).first() is None:
            return False
        outbox.add(connection, messages, now)
    return True


def _miss(row: Any) -> Miss:
    return Miss(row.dataset, Interval(row.interval_start, row.interval_end), row.due_at, row.opened_at, row.kind)
