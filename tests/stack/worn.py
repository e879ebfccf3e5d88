"""A table of a test's own that wears out quickly, and what keeps it healthy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehouse.catalog import catalog, table
from lakehouse.contracts.model import Gold
from lakehouse.health import TableHealth, health
from lakehouse.ledger.database import now as ledger_time
from lakehouse.maintenance.carried_out import carry_out
from lakehouse.maintenance.seen import plans
from lakehouse.maintenance.step import Plan
from lakehouse.naming import table_sql
from lakehouse.plan import Attempt
from lakehouse.query import run_sql
from lakehouse.store import client
from tests.stack.tables import loaded

DAYS = tuple(date(2026, 1, day) for day in (1, 2, 3))
# Few and small files are many already.
TINY = {"min_input_files": 3, "deleted_share": "5%", "min_manifests": 4, "target_file_mb": 8}
# By what a commit of each operation holds.
UPDATES = {
    "rewrite_data_files": b'"add-snapshot"',
    "rewrite_manifests": b'"add-snapshot"',
    "expire_snapshots": b'"remove-snapshots"',
}


@dataclass
class Worn:
    """A table by day, with the rows that it should hold beside it."""

    name: str
    rows: dict[int, tuple[date, int]] = field(default_factory=dict)

    @classmethod
    def made(cls, spark: SparkSession, layer: str = "gold", version: int = 3) -> Worn:
        found = cls(f"{layer}.worn_{uuid4().hex[:8]}")
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{layer}")
        modes = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("merge", "update", "delete"))
        spark.sql(
            f"CREATE TABLE {table_sql(found.name)} (id BIGINT, at TIMESTAMP, amount BIGINT) USING iceberg "
            f"PARTITIONED BY (day(at)) TBLPROPERTIES ('format-version' = '{version}', {modes})"
        )
        return found

    def contract(self, retention: dict[str, Any] | None = None, **maintenance: Any) -> Gold:
        given = {
            "dataset": self.name,
            "description": "Wears out.",
            "owner": "team",
            "start": "2026-01-01",
            "reads": ["silver.any"],
            "columns": {"id": {"type": "bigint"}, "at": {"type": "timestamp"}, "amount": {"type": "bigint"}},
            "partition_by": ["day(at)"],
            "sql": "SELECT 1",
            "sla": {"ready_within": "1h"},
            "retention": {"snapshots": "7d", **(retention or {})},
            "maintenance": {**TINY, **maintenance},
        }
        return Gold.model_validate(given)

    def write(self, spark: SparkSession, day: date, ids: range) -> None:
        """One file more in that day."""
        rows = spark.sql(
            f"SELECT id, TIMESTAMP '{day} 12:00:00' AS at, id * 3 AS amount FROM range({ids.start}, {ids.stop}, 1, 1)"
        )
        rows.writeTo(table_sql(self.name)).append()
        self.rows |= {number: (day, number * 3) for number in ids}

    def delete(self, spark: SparkSession, ids: range) -> None:
        spark.sql(f"DELETE FROM {table_sql(self.name)} WHERE id >= {ids.start} AND id < {ids.stop}")
        for number in ids:
            self.rows.pop(number, None)

    def wear(self, spark: SparkSession, files: int = 4) -> None:
        """Small files in each of three days."""
        for number, day in enumerate(DAYS):
            for part in range(files):
                first = number * 10_000 + part * 100
                self.write(spark, day, range(first, first + 100))

    def health(self) -> TableHealth:
        return health(loaded(self.name), 8 << 20)

    def holds_its_rows(self, at: str | None = None) -> None:
        """What a reader counts and sums is what was written."""
        counted = run_sql(f"SELECT count(*), count(DISTINCT id), sum(amount) FROM {self.name}", at=at)[1][0]
        assert tuple(counted) == (len(self.rows), len(self.rows), sum(amount for _, amount in self.rows.values()))

    def drop(self) -> None:
        if table(self.name) is not None:
            catalog().purge_table(self.name)


def planned(contract: Gold, now: datetime | None = None) -> Plan:
    ((_, found),) = plans(contract, now or datetime.now(UTC))
    return found


def keep(
    contract: Gold, run: Callable[[Any], None], *operations: str, now: datetime | None = None, pause: float = 0
) -> list[str]:
    """Plan and carry out, all of it or only some operations."""
    steps = [step for step in planned(contract, now).steps if not operations or step.operation in operations]
    clock = (lambda: now) if now else ledger_time
    return list(carry_out(contract, steps, Attempt(f"test/{uuid4().hex}", 1), run, pause, clock))


def in_days(count: int) -> datetime:
    return datetime.now(UTC) + timedelta(days=count)


def needed(worn: Worn, operation: str) -> tuple[Gold, datetime]:
    """A contract, and a time, by which the table needs the operation."""
    if operation == "expire_snapshots":
        return worn.contract(retention={"snapshots": "0d", "keep_last": 1}), in_days(1)
    return worn.contract(), datetime.now(UTC)


def worn_table(spark: SparkSession, version: int = 3) -> Iterator[Worn]:
    made = Worn.made(spark, version=version)
    yield made
    made.drop()


def put_aged(key: str, days: int) -> None:
    """An object as it would be had it been written some days ago; MinIO takes its time from a header."""
    moment = f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"
    own = client()

    def age(request, **_: object) -> None:
        request.headers["x-minio-source-mtime"] = moment
        request.headers["x-minio-source-replication-request"] = "true"

    own.meta.events.register("before-sign.s3.PutObject", age)
    try:
        own.put_object(Bucket="lake", Key=key, Body=b"left behind")
    finally:
        own.meta.events.unregister("before-sign.s3.PutObject", age)


def key_in(worn: Worn, name: str) -> str:
    return f"{loaded(worn.name).location().removeprefix('s3://lake/')}/data/{name}"
