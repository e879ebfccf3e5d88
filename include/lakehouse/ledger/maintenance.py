"""What maintenance did: one row for each operation, begun before it starts and closed when it has ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, func, insert, or_, select, update

from lakehouse.health.model import TableHealth
from lakehouse.ledger.database import engine
from lakehouse.ledger.database import maintenance as history

BEGUN, DONE, REFUSED, UNSEEN, PUT_OFF = "begun", "done", "refused", "failed to look", "put off"
_LOOKS_AGAIN = timedelta(days=1)  # after a look that failed, and may have cost as much as one that did not


def begin(table: str, operation: str, reason: str, before: TableHealth, score: int) -> int:
    """Note that an operation begins: one that is killed has left this row, and says no more."""
    row = {
        "table_name": table,
        "operation": operation,
        "reason": reason,
        "before": before.without_partitions().model_dump(mode="json"),
        "after": {},
        "score_before": score,
        "outcome": BEGUN,
        "seconds": 0.0,
    }
    with engine().begin() as connection:
        return int(
            connection.execute(insert(history).values(at=func.now(), **row).returning(history.c.id)).scalar_one()
        )


def close(number: int, outcome: str, seconds: float, **found: Any) -> None:
    """Note how an operation ended."""
    with engine().begin() as connection:
        values = {"outcome": outcome, "seconds": seconds, **found}
        connection.execute(update(history).where(history.c.id == number).values(**values))


def last_done(table: str) -> dict[str, datetime]:
    """When each operation was last done to the table, or refused after a look; for a day, when a look failed."""
    seen = or_(history.c.outcome == DONE, history.c.outcome.startswith(f"{REFUSED}: "))
    lately = and_(history.c.outcome.startswith(f"{UNSEEN}: "), history.c.at > func.now() - _LOOKS_AGAIN)
    statement = (
        select(history.c.operation, func.max(history.c.at).label("at"))
        .where(history.c.table_name == table, or_(seen, lately))
        .group_by(history.c.operation)
    )
    with engine().connect() as connection:
        return {row.operation: row.at for row in connection.execute(statement)}


def was_put_off(table: str, operation: str) -> bool:
    """Whether the operation had to wait for somebody when it was last tried."""
    statement = (
        select(history.c.outcome)
        .where(history.c.table_name == table, history.c.operation == operation)
        .order_by(history.c.id.desc())
        .limit(1)
    )
    with engine().connect() as connection:
        return str(connection.execute(statement).scalar() or "").startswith(f"{PUT_OFF}: ")


def recent(table: str | None, limit: int) -> list[dict[str, Any]]:
    """The newest operations, of one table or of all, newest first."""
    statement = select(history).order_by(history.c.id.desc()).limit(limit)
    if table is not None:
        statement = statement.where(history.c.table_name == table)
    with engine().connect() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]
