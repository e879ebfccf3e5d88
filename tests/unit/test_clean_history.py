"""The whole history is judged as its intervals were when they ran."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakehouse import plan
from lakehouse.batch import Batch
from lakehouse.contracts.model import Silver
from lakehouse.intervals import Coverage, Interval
from lakehouse.ledger import batches

DAY = Interval(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
CONTRACT = Silver.model_validate(
    {
        "dataset": "silver.things",
        "description": "Things.",
        "owner": "team",
        "start": "2026-01-01",
        "reads": "bronze.things",
        "columns": {"id": {"type": "bigint", "from": "id", "required": True}},
        "key": ["id"],
        "newest_by": ["_source_offset"],
        "sla": {"ready_within": "1h"},
        "retention": {"snapshots": "7d"},
        "maintenance": {},
    }
)


def of_hour(hour: int) -> Batch:
    """What the input took in an hour of the day."""
    start = DAY.start + timedelta(hours=hour)
    more = {"fingerprint": "", "contract_version": "", "run": "", "attempt": ""}
    return Batch(
        batch_id=str(hour),
        dataset="bronze.things",
        interval_start=start,
        interval_end=start + timedelta(hours=1),
        **more,
    )


def test_what_was_late_at_the_end_of_a_day_is_late_though_its_input_came_by_the_hour(monkeypatch):
    monkeypatch.setattr(plan, "table", lambda _: None)
    monkeypatch.setattr(plan, "coverage", lambda _: Coverage((DAY,)))
    monkeypatch.setattr(batches, "published", lambda _: [of_hour(0), of_hour(23)])
    assert [one.interval_end for one in plan._history(CONTRACT, [])] == [DAY.end, DAY.end]
