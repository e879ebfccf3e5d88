"""Batches in the ledger: intent before publish, confirmation after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, literal, or_, select, text, update
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from lakehouse.batch import BEGINNING, INTENT, PUBLISHED, STANDING, UNDONE, Batch, TakenFile
from lakehouse.intervals import Coverage, Interval
from lakehouse.ledger.database import batches, engine, inputs
from lakehouse.naming import layer_of


def _row(batch: Batch) -> dict[str, Any]:
    times = {"interval_start": batch.interval_start, "interval_end": batch.interval_end}
    return {**batch.model_dump(mode="json", exclude={*times, "published_at"}), **times}


def intend(batch: Batch, files: Iterable[TakenFile] = ()) -> bool:
    """Write down that this batch is about to be published, with the inputs it takes.

    False, and nothing is written, where another try of it has been published or is about to be.
    """
    row = {**_row(batch), "state": INTENT, "intended_at": func.now(), "published_at": None}
    taken = [{"batch_id": batch.batch_id, "dataset": batch.dataset, **f.model_dump()} for f in files]
    free = or_(batches.c.state.not_in(STANDING), batches.c.attempt == batch.attempt)
    write = insert(batches).values(row).on_conflict_do_update(index_elements=["batch_id"], set_=row, where=free)
    with engine().begin() as connection:
        if not connection.execute(write).rowcount:
            return False
        if taken:  # of an earlier try nothing is kept: what this one read counts
            connection.execute(delete(inputs).where(inputs.c.batch_id == batch.batch_id))
            connection.execute(insert(inputs), taken)
    return True


def settle(batch_id: str, state: str, measures: Mapping[str, float] | None = None) -> None:
    """Record how an intended batch ended, and what is known of it now."""
    values: dict[str, Any] = {"state": state, "published_at": func.now() if state == PUBLISHED else None}
    values |= {"measures": dict(measures)} if measures else {}
    with engine().begin() as connection:
        connection.execute(update(batches).where(batches.c.batch_id == batch_id).values(values))


def _found(*conditions: Any, limit: int | None = None, order: Any = None) -> list[Batch]:
    columns = [batches.c[name] for name in Batch.model_fields]
    newest_first = (batches.c.intended_at.desc(),) if order is None else (order, batches.c.intended_at.desc())
    statement = select(*columns).where(*conditions).order_by(*newest_first).limit(limit)
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


def published_across(dataset: str, interval: Interval) -> list[Batch]:
    """The published batches whose interval lies in this one only in part."""
    return _found(
        batches.c.dataset == dataset,
        batches.c.state == PUBLISHED,
        batches.c.interval_start < interval.end,
        batches.c.interval_end > interval.start,
        batches.c.interval_start > BEGINNING,
        or_(batches.c.interval_start < interval.start, batches.c.interval_end > interval.end),
    )


def replayed(dataset: str) -> bool:
    """Whether rejected records of a dataset were ever brought into it by hand: such batches are of no interval."""
    mine = (batches.c.dataset == dataset, batches.c.state == PUBLISHED, batches.c.interval_start == BEGINNING)
    return bool(_found(*mine, limit=1))


def published(dataset: str) -> list[Batch]:
    """Every published batch of a dataset, newest first."""
    return _found(batches.c.dataset == dataset, batches.c.state == PUBLISHED)


def accepted_before(dataset: str, interval: Interval, count: int, outdated: Mapping[str, int]) -> list[int]:
    """How many records the intervals before brought that were accepted, newest first; outdated ones, by batch, less.

    In bronze an interval's batches add up; in silver a later one takes the earlier one's place.
    """
    before = (
        batches.c.dataset == dataset,
        batches.c.state == PUBLISHED,
        batches.c.interval_end <= interval.start,
        batches.c.interval_start > BEGINNING,  # records that were replayed are of no interval
    )
    starts = select(batches.c.interval_start).where(*before).distinct().order_by(batches.c.interval_start.desc())
    known = _found(
        *before,
        batches.c.interval_start.in_(starts.limit(count)),
        order=batches.c.interval_start.desc(),
    )
    by_interval: dict[datetime, int] = {}
    for batch in known:
        rows = batch.counts.get("rows_in", 0) - batch.counts.get("quarantined", 0) - outdated.get(batch.batch_id, 0)
        if layer_of(dataset) == "bronze":
            rows += by_interval.pop(batch.interval_start, 0)
        by_interval.setdefault(batch.interval_start, rows)
    return list(by_interval.values())


def runs_of(batch_ids: Collection[str]) -> dict[str, str]:
    """The run that made each of these batches."""
    statement = select(batches.c.batch_id, batches.c.run).where(batches.c.batch_id.in_(batch_ids))
    with engine().connect() as connection:
        return {row.batch_id: row.run for row in connection.execute(statement)}


def mark(dataset: str) -> str:
    """What is another whenever a batch of the dataset begins, ends or is undone."""
    known = func.concat(batches.c.batch_id, batches.c.state, batches.c.intended_at)
    every = func.md5(func.string_agg(known, aggregate_order_by(literal(","), batches.c.batch_id)))
    with engine().connect() as connection:
        return str(connection.execute(select(every).where(batches.c.dataset == dataset)).scalar())


def by_id(batch_ids: Collection[str]) -> list[Batch]:
    return _found(batches.c.batch_id.in_(batch_ids))


def settled(dataset: str) -> list[Batch]:
    """Batches that main holds, and those that were undone, newest first."""
    return _found(batches.c.dataset == dataset, batches.c.state.in_([PUBLISHED, UNDONE]))


def recent(dataset: str, limit: int = 30) -> list[Batch]:
    return _found(batches.c.dataset == dataset, limit=limit)


def since_written(dataset: str, name: str, state: str) -> list[Batch]:
    """Batches that ended so after the newest published one that looked at this table of the dataset."""
    newest = select(func.max(batches.c.intended_at)).where(
        batches.c.dataset == dataset, batches.c.state == PUBLISHED, batches.c.writes.contains([{"table": name}])
    )
    after = batches.c.intended_at > func.coalesce(newest.scalar_subquery(), text("'-infinity'::timestamptz"))
    return _found(batches.c.dataset == dataset, batches.c.state == state, after)


def coverages() -> dict[str, Coverage]:
    """The intervals of each dataset that the ledger knows as published: for when the catalog cannot be asked."""
    statement = select(batches.c.dataset, batches.c.interval_start, batches.c.interval_end).where(
        batches.c.state == PUBLISHED, batches.c.interval_start > BEGINNING
    )
    found: dict[str, list[Interval]] = {}
    with engine().connect() as connection:
        for row in connection.execute(statement):
            found.setdefault(row.dataset, []).append(Interval(row.interval_start, row.interval_end))
    return {dataset: Coverage.of(intervals) for dataset, intervals in found.items()}


def undone_in(dataset: str, interval: Interval) -> list[Batch]:
    """The batches of one interval that were rolled back, newest first."""
    mine = (batches.c.interval_start >= interval.start, batches.c.interval_end <= interval.end)
    return _found(batches.c.dataset == dataset, batches.c.state == UNDONE, *mine)
