"""Mutes in the ledger: datasets of whose misses nobody wants to hear for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Update, insert, select, update

from lakehouse.ledger.database import engine, sla_mutes


@dataclass(frozen=True)
class Mute:
    """Nobody is told of the dataset's misses until then."""

    dataset: str
    until: datetime
    why: str
    by: str
    at: datetime


def mute(dataset: str, until: datetime, *, why: str, by: str, now: datetime) -> None:
    """Tell nobody of the dataset's misses, nor of what waits behind it; an earlier mute of it ends."""
    with engine().begin() as connection:
        connection.execute(_in_force(dataset, now).values(ended_at=now))
        connection.execute(insert(sla_mutes).values(dataset=dataset, until=until, why=why, by=by, at=now))


def unmute(dataset: str, now: datetime) -> bool:
    """End the dataset's mute; False where there is none."""
    with engine().begin() as connection:
        return bool(connection.execute(_in_force(dataset, now).values(ended_at=now)).rowcount)


def mutes(now: datetime) -> dict[str, Mute]:
    """The mutes in force, by dataset."""
    asked = select(sla_mutes).where(sla_mutes.c.until > now, sla_mutes.c.ended_at.is_(None)).order_by(sla_mutes.c.until)
    with engine().connect() as connection:
        rows = connection.execute(asked).all()
    return {row.dataset: Mute(row.dataset, row.until, row.why, row.by, row.at) for row in rows}


def _in_force(dataset: str, now: datetime) -> Update:
    mine = (sla_mutes.c.dataset == dataset, sla_mutes.c.until > now, sla_mutes.c.ended_at.is_(None))
    return update(sla_mutes).where(*mine)
