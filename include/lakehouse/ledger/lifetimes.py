"""Landing files whose lifetime is over, as the ledger knows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, tuple_, update

from lakehouse.batch import PUBLISHED
from lakehouse.ledger.database import batches, engine, inputs


@dataclass(frozen=True)
class Ingested:
    """A version of a landing file that a published batch has taken."""

    batch_id: str
    uri: str
    etag: str
    bytes: int


def _over(dataset: str, before: datetime) -> tuple[Any, ...]:
    return (
        inputs.c.dataset == dataset,
        inputs.c.removed_at.is_(None),
        batches.c.batch_id == inputs.c.batch_id,
        batches.c.state == PUBLISHED,
        batches.c.published_at < before,
    )


def ingested_before(dataset: str, before: datetime, limit: int) -> list[Ingested]:
    """Files that were ingested before that time and not removed yet, oldest first."""
    columns = (inputs.c.batch_id, inputs.c.uri, inputs.c.etag, inputs.c.bytes)
    statement = select(*columns).where(*_over(dataset, before)).order_by(batches.c.published_at, inputs.c.uri)
    with engine().connect() as connection:
        return [Ingested(*row) for row in connection.execute(statement.limit(limit))]


def count_ingested_before(dataset: str, before: datetime) -> int:
    """How many there are."""
    statement = select(func.count()).select_from(inputs.join(batches)).where(*_over(dataset, before))
    with engine().connect() as connection:
        return int(connection.execute(statement).scalar_one())


def note_removed(files: Iterable[Ingested]) -> None:
    """Remember that these are no longer in the landing bucket."""
    keys = [(one.batch_id, one.uri) for one in files]
    if keys:
        mine = tuple_(inputs.c.batch_id, inputs.c.uri).in_(keys)
        with engine().begin() as connection:
            connection.execute(update(inputs).where(mine).values(removed_at=func.now()))
