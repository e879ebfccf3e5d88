"""Rollbacks in the ledger: intent before the tables move, confirmation after."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Update, func, insert, select, update

from lakehouse.batch import PUBLISHED, UNDONE
from lakehouse.ledger.database import batches, engine, rollbacks

INTENT, DONE, ABANDONED = "intent", "done", "abandoned"


class Move(BaseModel):
    """Main of one table, before and after; None: it holds nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    before: int | None
    after: int | None


class Rollback(BaseModel):
    """A dataset's way to another of its versions: the tables that move, its own last, and what that means."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    moves: tuple[Move, ...]
    undone: tuple[str, ...] = Field(description="Batches that main no longer holds.")
    redone: tuple[str, ...] = Field(description="Batches that main holds again.")
    properties: dict[str, str] = Field(description="What the table's own commit sets.")


def intend(rollback: Rollback, by: str, why: str) -> int:
    """Write down what is about to be done, by whom and why."""
    row = {**rollback.model_dump(mode="json"), "by": by, "why": why, "state": INTENT}
    with engine().begin() as connection:
        made = connection.execute(insert(rollbacks).values(at=func.now(), **row).returning(rollbacks.c.id))
        return int(made.scalar_one())


def unfinished(dataset: str) -> list[tuple[int, Rollback]]:
    """Rollbacks that were begun and not confirmed."""
    columns = [rollbacks.c[name] for name in Rollback.model_fields]
    statement = select(rollbacks.c.id, *columns).where(rollbacks.c.dataset == dataset, rollbacks.c.state == INTENT)
    with engine().connect() as connection:
        found = [dict(row) for row in connection.execute(statement.order_by(rollbacks.c.id)).mappings()]
    return [(row.pop("id"), Rollback.model_validate(row)) for row in found]


def confirm(number: int, rollback: Rollback) -> None:
    """The tables are where they should be: the batches are told so, in one transaction, and once."""
    with engine().begin() as connection:
        if not connection.execute(_ended(number, DONE)).rowcount:
            return  # by somebody else, while this process was held up: the batches may have been published again since
        for ids, state in ((rollback.undone, UNDONE), (rollback.redone, PUBLISHED)):
            connection.execute(update(batches).where(batches.c.batch_id.in_(ids)).values(state=state))


def abandon(number: int) -> None:
    """Nothing was changed, and nothing will be."""
    with engine().begin() as connection:
        connection.execute(_ended(number, ABANDONED))


def _ended(number: int, state: str) -> Update:
    return update(rollbacks).where(rollbacks.c.id == number, rollbacks.c.state == INTENT).values(state=state)


def recent(dataset: str, limit: int = 20) -> list[dict[str, Any]]:
    """The newest rollbacks of a dataset."""
    statement = select(rollbacks).where(rollbacks.c.dataset == dataset).order_by(rollbacks.c.id.desc()).limit(limit)
    with engine().connect() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]
