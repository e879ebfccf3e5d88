"""What tests of backfills share: three layers of contracts, days as intervals, batches as the ledger has them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakehouse import naming
from lakehouse.backfill.scope import Contracts
from lakehouse.batch import PUBLISHED, Batch
from lakehouse.intervals import Coverage, Interval
from tests.unit.contract_folder import BRONZE, GOLD, SILVER, SQL, loaded

BRONZE_NAME, SILVER_NAME, GOLD_NAME = "bronze.events", "silver.events", "gold.daily"
NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)


def contracts(folder: Path, **schedules: str) -> Contracts:
    """bronze.events → silver.events → gold.daily, each with a schedule of its own if one is given; and a stranger."""
    texts = {"bronze": BRONZE.replace("%Y-%m-%d", "%Y-%m-%dT%H"), "silver": SILVER, "gold": GOLD}
    files = {"bronze": "bronze/events.yaml", "silver": "silver/events.yaml", "gold": "gold/daily.yaml"}
    changes: dict[str, str | None] = {
        files[layer]: f'{texts[layer]}schedule: "{schedule}"\n' for layer, schedule in schedules.items()
    }
    changes["gold/daily.sql"] = SQL
    changes["bronze/other.yaml"] = BRONZE.replace("events", "other")
    found = loaded(folder, changes)
    assert found.problems == ()
    return found.contracts


def day(number: int, count: int = 1) -> Interval:
    """The day of January 2026, or that many days from it on."""
    start = datetime(2026, 1, number, tzinfo=UTC)
    return Interval(start, start + timedelta(count))


def days(*numbers: int) -> list[Interval]:
    return [day(number) for number in numbers]


def held(*numbers: int) -> Coverage:
    return Coverage.of(days(*numbers))


def batch(dataset: str, interval: Interval, mark: str = "a", state: str = PUBLISHED, **more: object) -> Batch:
    """A batch as the ledger has it; `mark` stands for what it was made from."""
    known: dict[str, object] = {
        "batch_id": naming.batch_id(dataset, interval, mark),
        "dataset": dataset,
        "interval_start": interval.start,
        "interval_end": interval.end,
        "fingerprint": mark,
        "contract_version": "v1",
        "run": "a run",
        "attempt": "a try",
        "state": state,
        "counts": {"rows_in": 10},
    }
    return Batch.model_validate({**known, **more})


def of(dataset: str, intervals: Iterable[Interval], **more: object) -> list[Batch]:
    return [batch(dataset, interval, **more) for interval in intervals]  # type: ignore[arg-type]
