"""Troubles in the ledger: one row for each time that a table was worn, or its maintenance late."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert

from lakehouse.ledger import outbox
from lakehouse.ledger.database import engine
from lakehouse.ledger.database import troubles as rows
from lakehouse.ledger.outbox import Message
from lakehouse.upkeep import Trouble


def still_open() -> list[Trouble]:
    """Those that are not over."""
    with engine().connect() as connection:
        found = connection.execute(select(rows).where(rows.c.closed_at.is_(None)).order_by(rows.c.opened_at)).all()
    return [
        Trouble(
            dataset=row.dataset,
            table=row.table_name,
            kind=row.kind,
            severity=row.severity,
            detail=row.detail,
            due=row.due_at,
            opened_at=row.opened_at,
            told_at=row.told_at,
            known_as=row.alert_id,
        )
        for row in found
    ]


def record(found: Trouble, messages: Collection[Message] = ()) -> bool:
    """Keep a trouble, with its messages; False, and nothing done, when it has been told or is over."""
    row = {
        "alert_id": found.alert_id,
        "dataset": found.dataset,
        "table_name": found.table,
        "kind": found.kind,
        "severity": found.severity,
        "detail": found.detail,
        "due_at": found.due,
        "opened_at": found.opened_at,
        "told_at": found.told_at,
    }
    kept = (
        insert(rows)
        .values(row)
        .on_conflict_do_update(
            index_elements=[rows.c.alert_id],
            set_={"told_at": found.told_at, "detail": found.detail},
            where=rows.c.told_at.is_(None) & rows.c.closed_at.is_(None),
        )
        .returning(rows.c.alert_id)
    )
    return outbox.changed(kept, messages, found.told_at or found.opened_at)


def close(found: Trouble, messages: Collection[Message], now: datetime) -> bool:
    """Record that it is over, with its messages; False, and nothing done, when it was over already."""
    closed = (
        update(rows)
        .where(rows.c.alert_id == found.alert_id, rows.c.closed_at.is_(None))
        .values(closed_at=now)
        .returning(rows.c.alert_id)
    )
    return outbox.changed(closed, messages, now)
