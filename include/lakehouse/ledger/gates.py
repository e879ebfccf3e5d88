"""Gate results in the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sqlalchemy import func, insert, select

from lakehouse.ledger.database import engine, gate_results

PASSED, FAILED = "passed", "failed"


class Result(Protocol):
    @property
    def gate(self) -> str: ...
    @property
    def passed(self) -> bool: ...
    @property
    def found(self) -> str: ...


def record(batch_id: str, attempt: str, snapshot_id: int | None, results: Iterable[Result]) -> None:
    """Keep each gate's verdict on a version with what it found."""
    rows = [
        {
            "batch_id": batch_id,
            "attempt": attempt,
            "snapshot_id": snapshot_id,
            "gate": result.gate,
            "verdict": PASSED if result.passed else FAILED,
            "found": result.found,
        }
        for result in results
    ]
    if rows:
        with engine().begin() as connection:
            connection.execute(insert(gate_results).values(at=func.now()), rows)


def passed(snapshot_id: int) -> tuple[str, ...]:
    """The gates that a version passed when it was last audited."""
    mine = gate_results.c.snapshot_id == snapshot_id
    last = select(gate_results.c.attempt).where(mine).order_by(gate_results.c.id.desc()).limit(1).scalar_subquery()
    statement = select(gate_results.c.gate).where(
        mine, gate_results.c.attempt == last, gate_results.c.verdict == PASSED
    )
    with engine().connect() as connection:
        return tuple(sorted(set(connection.execute(statement).scalars())))
