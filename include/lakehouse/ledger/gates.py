"""Gate results in the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, insert, select, true

from lakehouse.batch import BEGINNING, PUBLISHED
from lakehouse.gates.checks import GateResult
from lakehouse.intervals import Interval
from lakehouse.ledger.database import batches, engine, gate_results
from lakehouse.naming import dag_id

PASSED = "passed"


def record(batch_id: str, attempt: str, snapshot_id: int | None, results: Iterable[GateResult]) -> None:
    """Keep each gate's verdict on a version with what it found."""
    about = {"batch_id": batch_id, "attempt": attempt, "snapshot_id": snapshot_id}
    rows = [{**about, **result.model_dump(mode="json")} for result in results]
    if rows:
        with engine().begin() as connection:
            connection.execute(insert(gate_results).values(at=func.now()), rows)


def passed(snapshot_id: int) -> tuple[str, ...]:
    """The definitions of the gates that a version passed when it was last audited."""
    mine = gate_results.c.snapshot_id == snapshot_id
    last = select(gate_results.c.attempt).where(mine).order_by(gate_results.c.id.desc()).limit(1).scalar_subquery()
    statement = select(gate_results.c.definition).where(
        mine, gate_results.c.attempt == last, gate_results.c.verdict == PASSED, gate_results.c.definition.is_not(None)
    )
    with engine().connect() as connection:
        return tuple(sorted(set(connection.execute(statement).scalars())))


def earlier(dataset: str, definition: str, before: Interval, count: int) -> list[float]:
    """What a gate found in the intervals before, newest first: of each, in the batch that was published last."""
    newest = func.row_number().over(
        partition_by=batches.c.interval_start, order_by=(batches.c.intended_at.desc(), gate_results.c.id.desc())
    )
    found = (
        select(batches.c.interval_start, gate_results.c.value, newest.label("age"))
        .join(gate_results, gate_results.c.batch_id == batches.c.batch_id)
        .where(
            batches.c.dataset == dataset,
            batches.c.state == PUBLISHED,
            batches.c.interval_end <= before.start,
            batches.c.interval_start > BEGINNING,
            gate_results.c.definition == definition,
            gate_results.c.value.is_not(None),
        )
        .subquery()
    )
    statement = select(found.c.value).where(found.c.age == 1).order_by(found.c.interval_start.desc()).limit(count)
    with engine().connect() as connection:
        return [float(value) for value in connection.execute(statement).scalars()]


def recent(dataset: str, limit: int, *, wrong: bool = False) -> list[dict[str, Any]]:
    """The newest verdicts on a dataset's batches, newest first; of all gates, or of those that found something."""
    # A batch that failed its audit is in no other table: its id begins with the dataset's own.
    mine = gate_results.c.batch_id.startswith(f"{dag_id(dataset)}-", autoescape=True)
    asked = gate_results.c.verdict != PASSED if wrong else true()
    statement = select(gate_results).where(mine, asked).order_by(gate_results.c.id.desc()).limit(limit)
    with engine().connect() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]
