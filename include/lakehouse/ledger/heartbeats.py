"""Heartbeats in the ledger: who watches, and when it last did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from lakehouse.ledger.database import engine, heartbeats

# A look that takes long, or a machine under load, is no death.
BEATS_MISSED = 5
SHORTEST = timedelta(minutes=2)


@dataclass(frozen=True)
class Beat:
    """The last sign of life, and how often there should be one."""

    at: datetime
    every: timedelta

    def overdue(self, now: datetime) -> bool:
        return now > self.due

    @property
    def due(self) -> datetime:
        """When silence means that something is wrong."""
        return self.at + max(self.every * BEATS_MISSED, SHORTEST)


def beat(name: str, now: datetime, every: timedelta) -> None:
    """Leave a sign of life."""
    row = {"name": name, "at": now, "every_s": every.total_seconds()}
    with engine().begin() as connection:
        connection.execute(insert(heartbeats).values(row).on_conflict_do_update(index_elements=["name"], set_=row))


def last(name: str) -> Beat | None:
    """The last sign of life; None where there never was one."""
    with engine().connect() as connection:
        row = connection.execute(select(heartbeats).where(heartbeats.c.name == name)).first()
    return Beat(row.at, timedelta(seconds=row.every_s)) if row else None
