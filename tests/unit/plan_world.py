"""Tables in a given health, and the plan for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from lakehouse.contracts import contract
from lakehouse.contracts.keeping import Maintenance
from lakehouse.health.model import PartitionHealth, TableHealth
from lakehouse.maintenance.planned import Seen, plan
from lakehouse.maintenance.step import Plan

NOW = datetime(2026, 6, 1, tzinfo=UTC)
MEGABYTE = 1 << 20
ORDERS = contract("silver.orders")
YESTERDAY = {"remove_orphan_files": NOW - timedelta(days=1)}


def part(day: int, **changed: Any) -> PartitionHealth:
    """A day's partition, healthy unless something is said of it."""
    given = {
        "name": f"day={day}",
        "where": f"day = {day}",
        "ends": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day + 1),
        "files": 1,
        "bytes": 100 * MEGABYTE,
        "rows": 1_000,
        "median_bytes": 100 * MEGABYTE,
        "small_files": 0,
        "small_bytes": 0,
        "delete_files": 0,
        "delete_bytes": 0,
        "deleted_rows": 0,
        "manifests": 1,
        "needed_files": 1,
    }
    return PartitionHealth.model_validate({**given, **changed})


def small(day: int, files: int = 10, megabytes: int = 20, **changed: Any) -> PartitionHealth:
    size = megabytes * MEGABYTE
    return part(day, files=files, small_files=files - 1, bytes=size, small_bytes=size, **changed)


def table(*partitions: PartitionHealth, **changed: Any) -> TableHealth:
    given = {
        "files": sum(one.files for one in partitions),
        "bytes": sum(one.bytes for one in partitions),
        "rows": 1_000,
        "delete_files": 0,
        "snapshots": 3,
        "oldest_snapshot_ms": None,
        "manifests": 1,
        "snapshot_id": 1,
        "partitions": partitions,
    }
    return TableHealth.model_validate({**given, **changed})


def planned(health: TableHealth, policy: dict[str, Any] | None = None, **given: Any) -> Plan:
    """The plan for silver.orders in such health, with other thresholds if they are given."""
    changed = ORDERS.model_copy(update={"maintenance": Maintenance.model_validate(policy or {})})
    return plan(
        Seen(
            **{
                "name": "silver.orders",
                "contract": changed,
                "now": NOW,
                "last_done": YESTERDAY,
                **given,
                "health": health,
            }
        )
    )


def conditions(found: Plan) -> list[str | None]:
    return [step.call.where for step in found.steps if step.call]
