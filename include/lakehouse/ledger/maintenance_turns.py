"""The turns that datasets have of maintenance: when the last one began, how it ended, and when one last ended well."""

from __future__ import annotations

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from lakehouse.ledger.database import engine
from lakehouse.ledger.database import maintenance_turns as turns
from lakehouse.upkeep import Turn

BEGUN, DONE = "begun", "done"


def begin(dataset: str) -> None:
    """Note that a dataset has its turn: it is about to be looked at, and what it needs will be done."""
    new = insert(turns).values(dataset=dataset, begun_at=func.now(), outcome=BEGUN)
    again = {"begun_at": new.excluded.begun_at, "outcome": BEGUN}
    with engine().begin() as connection:
        connection.execute(new.on_conflict_do_update(index_elements=[turns.c.dataset], set_=again))


def end(dataset: str, outcome: str) -> None:
    """Note how the turn ended."""
    ended = {"ended_at": func.now(), "outcome": outcome}
    if outcome == DONE:
        ended["done_at"] = func.now()
    with engine().begin() as connection:
        connection.execute(update(turns).where(turns.c.dataset == dataset).values(**ended))


def last() -> dict[str, Turn]:
    """Each dataset's last turn."""
    with engine().connect() as connection:
        return {row.dataset: Turn(**row._mapping) for row in connection.execute(select(turns))}
