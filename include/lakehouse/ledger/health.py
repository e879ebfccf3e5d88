"""What was measured of tables over time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, insert, select, text

from lakehouse.health.model import TableHealth
from lakehouse.health.score import Concern, Score
from lakehouse.ledger.database import engine
from lakehouse.ledger.database import health as measures


@dataclass(frozen=True)
class Measured:
    """A table's health at one time, without its partitions."""

    at: datetime
    score: int
    facts: TableHealth
    concerns: dict[str, str]


def record(table: str, found: TableHealth, score: Score, concerns: Sequence[Concern] = ()) -> None:
    """Keep a measurement. Partitions are left out: a row of the ledger must not grow with the table."""
    row = {
        "table_name": table,
        "score": score.total,
        "parts": [part.model_dump() for part in score.parts],
        "facts": found.without_partitions().model_dump(mode="json"),
        "concerns": {one.kind: one.told for one in concerns},
    }
    with engine().begin() as connection:
        connection.execute(insert(measures).values(at=func.now(), **row))


def recent(table: str, limit: int) -> list[Measured]:
    """A table's newest measurements, newest first."""
    statement = (
        select(measures.c.at, measures.c.score, measures.c.facts, measures.c.concerns)
        .where(measures.c.table_name == table)
        .order_by(measures.c.id.desc())
        .limit(limit)
    )
    with engine().connect() as connection:
        rows = list(connection.execute(statement))
    return [Measured(row.at, row.score, TableHealth.model_validate(row.facts), row.concerns) for row in rows]


def newest_files(table: str) -> tuple[int, int]:
    """The number of a table's newest measurement, and how many files, of data and deletes, it found; 0 of none."""
    statement = (
        select(measures.c.id, measures.c.facts["files"], measures.c.facts["delete_files"])
        .where(measures.c.table_name == table)
        .order_by(measures.c.id.desc())
        .limit(1)
    )
    with engine().connect() as connection:
        row = connection.execute(statement).first()
    return (row[0], row[1] + row[2]) if row else (0, 0)


def newest_concerns(tables: Collection[str]) -> dict[str, tuple[datetime, dict[str, str]]]:
    """When each of these tables was last measured, and what was past its threshold then."""
    statement = text(
        "SELECT found.table_name, found.at, found.concerns FROM unnest(CAST(:tables AS text[])) AS asked(name), "
        "LATERAL (SELECT * FROM health WHERE table_name = asked.name ORDER BY id DESC LIMIT 1) AS found"
    )
    with engine().connect() as connection:
        rows = connection.execute(statement, {"tables": sorted(tables)}).all()
    return {row.table_name: (row.at, row.concerns) for row in rows}
