"""What the tables hold, in the oracle's own terms; read through DuckDB, as an analyst would."""

from __future__ import annotations

from datetime import date
from typing import Any

from lakehouse.batch import PUBLISHED
from lakehouse.ledger import batches, leases
from lakehouse.naming import feed_table, quarantine_table
from lakehouse.query import run_sql
from tests.oracle import Rejected, Result, Sale
from tests.stack.shop import Shop

SILVER = "order_id, customer_id, product_id, category, region, quantity, amount, status, ordered_at, updated_at"


def bronze_count(shop: Shop, day: date) -> int:
    _, rows = run_sql(f"SELECT count(*) FROM {shop.bronze} WHERE _ingestion_date = DATE '{day}'")
    return int(rows[0][0])


def silver(shop: Shop) -> dict[int, dict[str, Any]]:
    names, rows = run_sql(f"SELECT {SILVER} FROM {shop.silver}")
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def from_feed(shop: Shop) -> dict[int, dict[str, Any]]:
    """The rows that the change feed leads to: those that came once more than they went."""
    left = "sum(CASE WHEN _change IN ('insert', 'update_after') THEN 1 ELSE -1 END)"
    names, rows = run_sql(f"SELECT {left}, {SILVER} FROM {feed_table(shop.silver)} GROUP BY ALL HAVING {left} <> 0")
    assert {row[0] for row in rows} == {1}
    return {row[1]: dict(zip(names[1:], row[1:], strict=True)) for row in rows}


def quarantine(shop: Shop) -> list[Rejected]:
    _, rows = run_sql(
        "SELECT CAST(_interval_start AS DATE), _source_file, _source_offset, _reasons FROM "
        + quarantine_table(shop.silver)
    )
    return sorted(Rejected(day, file, offset, tuple(reasons)) for day, file, offset, reasons in rows)


def whole(shop: Shop, dataset: str, expected: Result) -> None:
    """Every table as the oracle has it, one batch a day, nothing leased, nothing left of the tries that failed."""
    _, rows = run_sql(f"SELECT count(*), count(DISTINCT (_source_file, _source_offset)) FROM {shop.bronze}")
    assert rows == [(sum(expected.bronze.values()), sum(expected.bronze.values()))]
    if dataset == shop.silver:
        assert silver(shop) == from_feed(shop) == expected.silver
        assert quarantine(shop) == expected.quarantine
    assert [batch.state for batch in batches.recent(dataset)] == [PUBLISHED] * len(expected.bronze)
    assert leases.holder(dataset) is None


def gold(shop: Shop) -> list[Sale]:
    _, rows = run_sql(f"SELECT order_date, region, category, gmv, orders, avg_basket FROM {shop.gold}")
    return sorted((Sale(*row) for row in rows), key=repr)
