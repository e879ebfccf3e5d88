"""What the tables hold, in the oracle's own terms; read through DuckDB, as an analyst would."""

from __future__ import annotations

from datetime import date
from typing import Any

from lakehouse.batch import PUBLISHED
from lakehouse.ledger import batches, leases
from lakehouse.maintenance.reachable import check
from lakehouse.naming import feed_table, quarantine_table
from lakehouse.query import run_sql
from tests.oracle import Rejected, Result, Sale
from tests.stack.shop import Shop
from tests.stack.tables import loaded

SILVER = "order_id, customer_id, product_id, category, region, quantity, amount, status, ordered_at, updated_at"


def bronze_count(shop: Shop, day: date) -> int:
    _, rows = run_sql(f"SELECT count(*) FROM {shop.bronze} WHERE _ingestion_date = DATE '{day}'")
    return int(rows[0][0])


def silver(shop: Shop) -> dict[int, dict[str, Any]]:
    names, rows = run_sql(f"SELECT {SILVER} FROM {shop.silver}")
    return by_key([dict(zip(names, row, strict=True)) for row in rows])


def by_key(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Rows by their order, of which each has one."""
    found = {row["order_id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def from_feed(shop: Shop) -> dict[int, dict[str, Any]]:
    """The rows that the change feed leads to: those that came once more than they went."""
    left = "sum(CASE WHEN _change IN ('insert', 'update_after') THEN 1 ELSE -1 END)"
    names, rows = run_sql(f"SELECT {left}, {SILVER} FROM {feed_table(shop.silver)} GROUP BY ALL HAVING {left} <> 0")
    assert {row[0] for row in rows} == {1}
    return by_key([dict(zip(names[1:], row[1:], strict=True)) for row in rows])


def quarantine(shop: Shop) -> list[Rejected]:
    _, rows = run_sql(
        "SELECT CAST(_interval_start AS DATE), _source_file, _source_offset, _reasons FROM "
        + quarantine_table(shop.silver)
    )
    return sorted(Rejected(day, file, offset, tuple(reasons)) for day, file, offset, reasons in rows)


def whole(shop: Shop, dataset: str, expected: Result) -> None:
    """Every table as the oracle has it, one balanced batch a day, nothing leased, every file of every version there."""
    _, rows = run_sql(f"SELECT count(*), count(DISTINCT (_source_file, _source_offset)) FROM {shop.bronze}")
    assert rows == [(sum(expected.bronze.values()), sum(expected.bronze.values()))]
    _, rows = run_sql(f"SELECT _ingestion_date, count(*) FROM {shop.bronze} GROUP BY ALL")
    assert dict(rows) == expected.bronze
    if dataset == shop.silver:
        assert silver(shop) == from_feed(shop) == expected.silver
        assert quarantine(shop) == expected.quarantine
    assert [batch.state for batch in batches.recent(dataset)] == [PUBLISHED] * len(expected.bronze)
    balanced(shop, dataset)
    assert leases.holder(dataset) is None
    for name in shop.contract(dataset).tables:
        assert check(name, loaded(name)) > 0


def balanced(shop: Shop, dataset: str) -> None:
    """What a batch took in is what it did with it, and bronze has as many rows of each batch as the ledger says."""
    known = batches.published(dataset)
    outcomes = ("inserted", "updated", "deleted", "unchanged", "superseded", "duplicate", "quarantined")
    for batch in known:
        assert batch.counts["rows_in"] == sum(batch.counts.get(outcome, 0) for outcome in outcomes)
    if dataset == shop.bronze:
        _, rows = run_sql(f"SELECT _batch_id, count(*) FROM {shop.bronze} GROUP BY ALL")
        assert dict(rows) == {batch.batch_id: batch.counts["rows_in"] for batch in known if batch.counts["rows_in"]}


def gold(shop: Shop) -> list[Sale]:
    _, rows = run_sql(f"SELECT order_date, region, category, gmv, orders, avg_basket FROM {shop.gold}")
    return sorted((Sale(*row) for row in rows), key=repr)
