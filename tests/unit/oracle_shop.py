"""What tests of the oracle share: landing folders that they make up, and what a run makes of them."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tests.oracle import Oracle, Run

DAY = date(2026, 1, 1)
DAYS = [DAY + timedelta(days=number) for number in range(5)]


def change(order: int, hour: float, op: str = "u", day: date = DAY, **after: Any) -> str:
    """A line of an order changed at an hour of a day."""
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=hour)
    state = {"id": order, "customer_id": 1, "product_id": 2, "category": "toys", "region": "north", "quantity": 1}
    state |= {"amount": 10.0, "status": "new", "ordered_at": "2026-01-01T00:00:00Z", **after}
    images = {"before": state, "after": None} if op == "d" else {"before": None, "after": state}
    return json.dumps({**images, "op": op, "ts_ms": int(at.timestamp() * 1000)})


def put(dataset: str, day: date = DAY, **files: list[str]) -> dict[str, bytes]:
    """A day's landing folder with these files, given by their lines."""
    end = {"products": "csv", "clicks": "jsonl.gz"}.get(dataset, "jsonl")
    texts = {f"{dataset}/{day}/{name}.{end}": "\n".join(found).encode() for name, found in files.items()}
    return {key: gzip.compress(text, mtime=0) if key.endswith("gz") else text for key, text in texts.items()}


def ran(run: Run | None) -> Run:
    """A run that had something to do."""
    assert run is not None
    return run


def counts(run: Run | None) -> dict[str, int]:
    """What a run counts, without the noughts."""
    found = ran(run).counts
    assert found is not None
    return {name: number for name, number in found.items() if number}


def broken(dataset: str, *lines: str) -> list[tuple[str, ...]]:
    """The reasons for which lines are rejected."""
    shop = Oracle(dataset)
    shop.run(DAY, put(dataset, a=list(lines)))
    return [rejected.reasons for rejected in shop.quarantine]
