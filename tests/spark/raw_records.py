"""What tests of parsing share: contracts and raw records that they make up, and what parsing makes of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lakehouse.contracts import Silver, load
from lakehouse.settings import ROOT
from spark_jobs.parsing import REASONS, parsed

END = datetime(2026, 1, 2, tzinfo=UTC)
NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z, in milliseconds
MONEY = "decimal(12,2)"
LAYERED = {
    "sla": {"ready_within": "1h"},
    "retention": {"snapshots": "7d"},
    "maintenance": {"tier": "daily"},
}
ORDER = {
    "id": 7,
    "customer_id": 1,
    "product_id": 2,
    "category": "toys",
    "region": "north",
    "quantity": 3,
    "amount": "$1,234.50",
    "status": "new",
    "ordered_at": "2026-01-01T11:00:00Z",
}


class Token(str):
    """A value as it is written in JSON."""

    __slots__ = ()


def silver(columns: dict[str, dict[str, Any]], **more: Any) -> Silver:
    """A contract with the given columns beside its key."""
    key = {"id": {"type": "bigint", "required": True, "from": "id"}}
    return Silver.model_validate(
        {
            "dataset": "silver.things",
            "description": "Things.",
            "owner": "team",
            "start": "2026-01-01",
            "reads": "bronze.things",
            "columns": key | columns,
            "key": ["id"],
            "newest_by": ["_source_offset"],
            **LAYERED,
            **more,
        }
    )


def orders() -> Silver:
    found = load(ROOT / "include/contracts").contracts["silver.orders"]
    assert isinstance(found, Silver)
    return found


def written(record: dict[str, Any]) -> str:
    tokens = {name: value if isinstance(value, Token) else json.dumps(value) for name, value in record.items()}
    return "{" + ", ".join(f"{json.dumps(name)}: {token}" for name, token in tokens.items()) + "}"


def frame(spark, *payloads: Any) -> DataFrame:
    """Bronze rows of payloads, which are texts or become JSON."""
    texts = [payload if isinstance(payload, str | None) else written(payload) for payload in payloads]
    rows = [(number, text, f"file-{number}") for number, text in enumerate(texts)]
    return spark.createDataFrame(rows, "_source_offset bigint, _raw_payload string, _source_file string")


def read(spark, contract: Silver, *payloads: Any) -> list[Row]:
    late_before = F.lit(END - contract.late_data) if contract.late_data else None
    return parsed(frame(spark, *payloads), contract, late_before).orderBy("_source_offset").collect()


def reasons(spark, contract: Silver, *payloads: Any) -> list[list[str]]:
    return [row[REASONS] for row in read(spark, contract, *payloads)]


def change(op: str = "u", ts_ms: Any = NOON, **after: Any) -> dict[str, Any]:
    return {"op": op, "ts_ms": ts_ms, "before": None, "after": {**ORDER, **after}}


def utc(*parts: int) -> datetime:
    """A time as collected rows hold it: of UTC, without saying so."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)
