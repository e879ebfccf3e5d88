"""Gate results in the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sqlalchemy import func, insert

from lakehouse.ledger.database import engine, gate_results


class Result(Protocol):
    @property
    def gate(self) -> str: ...
    @property
    def passed(self) -> bool: ...
    @property
    def found(self) -> str: ...


def record(batch_id: str, attempt: str, results: Iterable[Result]) -> None:
    """Keep each gate's verdict with what it found."""
    rows = [
        {
            "batch_id": batch_id,
            "attempt": attempt,
            "gate": result.gate,
            "verdict": "passed" if result.passed else "failed",
            "found": result.found,
        }
        for result in results
    ]
    if rows:
        with engine().begin() as connection:
            connection.execute(insert(gate_results).values(at=func.now()), rows)
