"""A shop of a bench's own whose silver table is large from the start, and batches of changes to it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.contracts.model import Silver
from lakehouse.naming import table_sql
from lakehouse.steps import Handover
from spark_jobs import tables
from tests.stack.shop import RunJob, Shop

FIRST = date(2026, 1, 1)
DAYS = 100
RECENT = 5
# The first interval that brings changes; the table's rows are older.
CHANGES = FIRST + timedelta(DAYS)


@dataclass
class BigShop:
    """Orders of a hundred days, as many each day; ids grow with time."""

    shop: Shop
    rows: int

    @classmethod
    def open(cls, spark: SparkSession, folder: Path, rows: int) -> BigShop:
        """Fill the table; then one small batch, so that what comes next finds an audited table and a warm server."""
        made = cls(Shop.open(folder, change_feed="false"), rows)
        contract = made.shop.contract(made.shop.silver)
        assert isinstance(contract, Silver)
        for name, wanted in tables.silver_tables(contract).items():
            tables.ensure(spark, name, wanted)
        since = f"make_interval(0, 0, 0, CAST(id DIV {rows // DAYS} AS INT), 0, 0, id % 86400)"
        day = f"TIMESTAMP'{FIRST} 00:00:00' + {since}"
        filled = spark.range(rows).selectExpr(
            "id AS order_id",
            "id % 100003 AS customer_id",
            "id % 1009 AS product_id",
            "concat('category ', id % 20) AS category",
            "concat('region ', id % 7) AS region",
            "CAST(1 + id % 5 AS INT) AS quantity",
            "CAST(id % 100000 / 100 AS DECIMAL(12,2)) AS amount",
            "'new' AS status",
            f"{day} AS ordered_at",
            f"{day} AS updated_at",
            "'before' AS _batch_id",
            "'s3://landing/before' AS _source_file",
            "id AS _source_offset",
        )
        filled.select(*tables.silver(contract).columns).writeTo(table_sql(made.shop.silver)).append()
        return made

    def recent(self, count: int, luck: Random) -> list[int]:
        """Some orders of the last days."""
        return luck.sample(range(self.rows - self.rows // DAYS * RECENT, self.rows), count)

    def deliver(self, day: date, orders: Iterable[int]) -> None:
        """A file that changes these orders."""
        lines = (json.dumps(self._change(order, day)) for order in orders)
        self.shop.land(day, {"part-0.json": "\n".join(lines).encode()})

    def _change(self, order: int, day: date) -> dict[str, Any]:
        ordered = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC) + timedelta(
            days=order // (self.rows // DAYS), seconds=order % 86400
        )
        after = {
            "id": order,
            "customer_id": order % 100003,
            "product_id": order % 1009,
            "category": f"category {order % 20}",
            "region": f"region {order % 7}",
            "quantity": 1 + order % 5,
            "amount": f"${order % 100000 / 100:,.2f}",
            "status": "paid",
            "ordered_at": ordered.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        return {"op": "u", "ts_ms": int(at.timestamp() * 1000), "after": after}

    def run(self, dataset: str, day: date, job: RunJob) -> tuple[float, Handover | None]:
        """Write, audit and publish; how long that took."""
        begun = time.perf_counter()
        done = self.shop.run(dataset, day, job)
        return time.perf_counter() - begun, done

    def clean(self, day: date, orders: Iterable[int], job: RunJob) -> tuple[float, Handover]:
        """Deliver and ingest changes, then clean them; the time is that of the cleaning."""
        self.deliver(day, orders)
        self.run(self.shop.bronze, day, job)
        seconds, done = self.run(self.shop.silver, day, job)
        assert done is not None
        return seconds, done
