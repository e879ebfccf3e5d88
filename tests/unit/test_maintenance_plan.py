"""The maintenance plan: what is done, and why, from the health of a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakehouse.contracts import Silver, contract
from lakehouse.contracts.keeping import Maintenance
from lakehouse.health import TableHealth
from lakehouse.maintenance import plan

NOW = datetime(2026, 6, 1, tzinfo=UTC)
HEALTHY = TableHealth(files=3, bytes=3 << 27, rows=9, delete_files=0, snapshots=3, oldest_snapshot_ms=None)


def calls(**changed: int | None) -> list[str]:
    return [call.procedure for call in plan(contract("silver.orders"), HEALTHY.model_copy(update=changed), NOW)]


def ago(**span: int) -> int:
    return int((NOW - timedelta(**span)).timestamp() * 1000)


def test_a_healthy_table_is_left_alone():
    assert calls() == []


def test_many_small_files_are_rewritten():
    assert calls(files=50, bytes=50 << 20) == ["rewrite_data_files"]


def test_many_large_files_are_left_alone():
    assert calls(files=50, bytes=50 << 27) == []


def test_delete_files_are_folded_into_data_files():
    assert calls(delete_files=1) == ["rewrite_data_files"]


def test_snapshots_past_their_retention_expire():
    assert calls(snapshots=20, oldest_snapshot_ms=ago(days=8)) == ["expire_snapshots"]


def test_snapshots_within_their_retention_are_kept():
    assert calls(snapshots=20, oldest_snapshot_ms=ago(days=6)) == []


def test_the_last_snapshots_are_kept_whatever_their_age():
    assert calls(snapshots=5, oldest_snapshot_ms=ago(days=80)) == []


def test_files_are_sorted_by_what_the_contract_says():
    orders = contract("silver.orders")
    assert isinstance(orders, Silver)
    sorted_orders = orders.model_copy(update={"maintenance": Maintenance(sort_by=("customer_id", "order_id"))})
    (call,) = plan(sorted_orders, HEALTHY.model_copy(update={"delete_files": 1}), NOW)
    assert call.sort_order == "`customer_id`, `order_id`"
    (unsorted,) = plan(orders, HEALTHY.model_copy(update={"delete_files": 1}), NOW)
    assert unsorted.sort_order is None
    (companion,) = plan(sorted_orders, HEALTHY.model_copy(update={"delete_files": 1}), NOW, companion=True)
    assert companion.sort_order is None
