"""Leases: one writer per dataset at a time. They make progress orderly; safety rests on publish's assertions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import and_, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from lakehouse.ledger.database import engine, leases

log = logging.getLogger(__name__)
TTL = timedelta(minutes=10)
HEARTBEAT_SECONDS = 20.0


@dataclass(frozen=True)
class Lease:
    """The owner is a run; its later tries take over from its earlier ones."""

    dataset: str
    owner: str
    attempt: str
    expires_at: datetime


def acquire(dataset: str, owner: str, attempt: str, ttl: timedelta = TTL, *, take_over: bool = True) -> bool:
    """Take the lease if it is free, expired or held by this try; or, to take it over, by another one of the run."""
    mine = {"owner": owner, "attempt": attempt, "taken_at": func.now(), "expires_at": func.now() + ttl}
    own = leases.c.owner == owner if take_over else and_(leases.c.owner == owner, leases.c.attempt == attempt)
    statement = (
        insert(leases)
        .values(dataset=dataset, **mine)
        .on_conflict_do_update(
            index_elements=[leases.c.dataset],
            set_=mine,
            where=or_(own, leases.c.expires_at < func.now()),
        )
        .returning(leases.c.dataset)
    )
    with engine().begin() as connection:
        return connection.execute(statement).first() is not None


def renew(dataset: str, owner: str, attempt: str, ttl: timedelta = TTL) -> bool:
    """Push the expiry away; False when this try no longer holds the lease."""
    statement = (
        update(leases)
        .where(leases.c.dataset == dataset, leases.c.owner == owner, leases.c.attempt == attempt)
        .values(expires_at=func.now() + ttl)
    )
    with engine().begin() as connection:
        return connection.execute(statement).rowcount == 1


def release(dataset: str, owner: str, attempt: str | None = None) -> None:
    """Give the lease back; does nothing when somebody else holds it.

    With an attempt, neither when another try of the run does: one that is thought dead must not free its successor's.
    """
    statement = delete(leases).where(leases.c.dataset == dataset, leases.c.owner == owner)
    if attempt is not None:
        statement = statement.where(leases.c.attempt == attempt)
    with engine().begin() as connection:
        connection.execute(statement)


def holder(dataset: str) -> Lease | None:
    """Who holds the lease now, if anybody does."""
    statement = select(leases).where(leases.c.dataset == dataset, leases.c.expires_at >= func.now())
    with engine().connect() as connection:
        row = connection.execute(statement).mappings().first()
    return Lease(row["dataset"], row["owner"], row["attempt"], row["expires_at"]) if row else None


@contextmanager
def kept(dataset: str, owner: str, attempt: str) -> Iterator[None]:
    """Renew the lease in the background for as long as the block runs."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            try:
                renew(dataset, owner, attempt)
            except SQLAlchemyError as error:
                log.warning("the lease of %s was not renewed, trying again: %s", dataset, error)

    thread = threading.Thread(target=beat, name=f"lease-{dataset}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=5)
