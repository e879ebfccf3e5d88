"""Batches in the ledger: intent before publish, confirmation after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from lakehouse.batch import INTENT, PUBLISHED, Batch, InputFile
from lakehouse.intervals import Interval
from lakehouse.ledger.database import batches, engine, inputs


def _row(batch: Batch) -> dict[str, Any]:
    times = {"interval_start": batch.interval_start, "interval_end": batch.interval_end}
    return {**batch.model_dump(mode="json", exclude={*times, "published_at"}), **times}


def intend(batch: Batch, files: Iterable[InputFile] = ()) -> None:
    """Write down that this batch is about to be published, with the inputs it takes."""
    row = {**_row(batch), "state": INTENT, "intended_at": func.now(), "published_at": None}
    taken = [{"batch_id": batch.batch_id, "dataset": batch.dataset, **f.model_dump()} for f in files]
    with engine().begin() as connection:
        connection.execute(insert(batches).values(row).on_conflict_do_update(index_elements=["batch_id"], set_=row))
        if taken:
            connection.execute(insert(inputs).on_conflict_do_nothing(), taken)


def settle(batch_id: str, state: str) -> None:
    """Record how an intended batch ended."""
    values = {"state": state, "published_at": func.now() if state == PUBLISHED else None}
    with engine().begin() as connection:
        connection.execute(update(batches).where(batches.c.batch_id == batch_id).values(values))


def _found(*conditions: Any, limit: int | None = None) -> list[Batch]:
    columns = [batches.c[name] for name in Batch.model_fields]
    statement = select(*columns).where(*conditions).order_by(batches.c.intended_at.desc()).limit(limit)
    with engine().connect() as connection:
        return [Batch.model_validate(dict(row)) for row in connection.execute(statement).mappings()]


def unsettled(dataset: str) -> list[Batch]:
    """Batches whose publish was begun and not confirmed."""
    return _found(batches.c.dataset == dataset, batches.c.state == INTENT)


def published_in(dataset: str, interval: Interval) -> list[Batch]:
    """The published batches of one interval, newest first."""
    return _found(
        batches.c.dataset == dataset,
        batches.c.state == PUBLISHED,
        batches.c.interval_start >= interval.start,
        batches.c.interval_end <= interval.end,
    )


def recent(dataset: str, limit: int = 30) -> list[Batch]:
    return _found(batches.c.dataset == dataset, limit=limit)


def taken(dataset: str, uris: Sequence[str]) -> set[tuple[str, str]]:
    """Which of these files were taken by a published batch, as (uri, etag)."""
    statement = (
        select(inputs.c.uri, inputs.c.etag)
        .join(batches, batches.c.batch_id == inputs.c.batch_id)
        .where(inputs.c.dataset == dataset, batches.c.state == PUBLISHED, inputs.c.uri == func.any(list(uris)))
    )
    with engine().connect() as connection:
        return {(row.uri, row.etag) for row in connection.execute(statement)}


def untaken(dataset: str, files: Collection[InputFile]) -> list[InputFile]:
    """The files that no published batch has taken, in a stable order."""
    known = taken(dataset, [f.uri for f in files])
    return sorted((f for f in files if (f.uri, f.etag) not in known), key=lambda f: f.uri)
