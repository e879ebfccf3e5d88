"""Rows of the ledger that nobody will ask for any more: measurements, and alerts that are over and were told."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, func, select

from lakehouse.ledger.database import engine, health, outbox, sla_misses, troubles


def prune(before: datetime) -> dict[str, int]:
    """Forget what is older; how many rows of each table that were.

    A table's newest measurement stays, and an alert that is open, or waits for a channel, with all of its messages.
    """
    newest = select(func.max(health.c.id)).group_by(health.c.table_name)
    messages = outbox.alias()
    # What has not left, or was told after that; and one that is open has no second event.
    alive = select(messages.c.alert_id).where(
        (messages.c.created_at >= before) | (messages.c.delivered_at.is_(None) & messages.c.failed_at.is_(None))
    )
    still_open = [
        select(one.c.alert_id).where(one.c.alert_id == outbox.c.alert_id, one.c.closed_at.is_(None)).exists()
        for one in (sla_misses, troubles)
    ]
    old = {
        "health": delete(health).where(health.c.at < before, health.c.id.not_in(newest)),
        "outbox": delete(outbox).where(outbox.c.alert_id.not_in(alive), *(~one for one in still_open)),
        "troubles": delete(troubles).where(troubles.c.closed_at < before),
    }
    with engine().begin() as connection:
        return {name: connection.execute(statement).rowcount for name, statement in old.items()}
