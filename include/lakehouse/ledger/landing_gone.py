"""Landing files that have gone, or are about to: one row for each of their versions, begun before it is touched."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Row, delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import distinct_on, insert

from lakehouse.batch import PUBLISHED
from lakehouse.intervals import Interval
from lakehouse.ledger.database import batches, engine, inputs
from lakehouse.ledger.database import landing_gone as gone

BEGUN, DONE, ABSENT = "begun", "done", "absent"
_AT_ONCE = 1_000  # rows in one statement
_UNWRITTEN = datetime.max.replace(tzinfo=UTC)


class Due(NamedTuple):
    """A file, as the newest of the published batches that took these bytes of it knows it."""

    uri: str
    etag: str
    bytes: int
    batch_id: str
    interval: Interval


class Gone(NamedTuple):
    """A version of a file that went, or is about to."""

    dataset: str
    batch_id: str
    uri: str
    version: str
    etag: str
    bytes: int
    archived_to: str
    state: str
    at: datetime = _UNWRITTEN  # by the ledger's clock


_KEY = (gone.c.dataset, gone.c.batch_id, gone.c.uri, gone.c.version)


def due(dataset: str, within: str, before: datetime, limit: int) -> tuple[list[Due], int]:
    """The dataset's files under an address that were taken by then and have not gone, oldest first; and how many.

    A file whose bytes several batches took is as old as the newest of them.
    """
    newest = (
        select(inputs.c.uri, inputs.c.etag, inputs.c.bytes, batches)
        .join(batches, batches.c.batch_id == inputs.c.batch_id)
        .where(inputs.c.dataset == dataset, batches.c.state == PUBLISHED)
        .where(inputs.c.uri.startswith(within, autoescape=True))
        .ext(distinct_on(inputs.c.uri, inputs.c.etag))
        .order_by(inputs.c.uri, inputs.c.etag, batches.c.published_at.desc())
        .subquery()
    )
    over = select(gone.c.uri).where(
        gone.c.dataset == dataset,
        gone.c.batch_id == newest.c.batch_id,
        gone.c.uri == newest.c.uri,
        gone.c.state != BEGUN,
    )
    statement = (
        select(newest, func.count().over().label("total"))
        .where(newest.c.published_at <= before, ~over.exists())
        .order_by(newest.c.published_at, newest.c.uri)
        .limit(limit)
    )
    with engine().connect() as connection:
        rows = list(connection.execute(statement))
    return [_due(row) for row in rows], rows[0].total if rows else 0


def _due(row: Row[Any]) -> Due:
    return Due(row.uri, row.etag, row.bytes, row.batch_id, Interval(row.interval_start, row.interval_end))


def note(rows: Sequence[Gone]) -> None:
    """Write down what is about to go, what went, or what was not there any more."""
    for first in range(0, len(rows), _AT_ONCE):
        given = [{**row._asdict(), "at": func.now()} for row in rows[first : first + _AT_ONCE]]
        new = insert(gone).values(given)
        again = {name: new.excluded[name] for name in ("etag", "bytes", "archived_to", "state", "at")}
        with engine().begin() as connection:
            connection.execute(new.on_conflict_do_update(index_elements=list(_KEY), set_=again))


def forget(rows: Sequence[Gone]) -> None:
    """What was begun and came to nothing: these files are there, and as due as before."""
    keys = [(row.dataset, row.batch_id, row.uri, row.version) for row in rows]
    with engine().begin() as connection:
        connection.execute(delete(gone).where(gone.c.state == BEGUN, tuple_(*_KEY).in_(keys)))


def begun(dataset: str) -> list[Gone]:
    """What was begun and not ended: whoever did it was killed."""
    return _found(gone.c.dataset == dataset, gone.c.state == BEGUN)


def under(address: str) -> list[Gone]:
    """What went from under an address, whichever dataset took it, in the order in which it went."""
    return _found(gone.c.uri.startswith(address, autoescape=True))


def taken_by(batch_ids: Collection[str]) -> list[Gone]:
    """What these batches took and is gone, whichever dataset's maintenance did it."""
    theirs = select(inputs.c.uri, inputs.c.etag).where(inputs.c.batch_id.in_(batch_ids))
    return _found(tuple_(gone.c.uri, gone.c.etag).in_(theirs)) if batch_ids else []


def _found(*conditions: Any) -> list[Gone]:
    statement = select(*(gone.c[name] for name in Gone._fields)).where(*conditions).order_by(gone.c.at, *_KEY)
    with engine().connect() as connection:
        return [Gone(*row) for row in connection.execute(statement)]
