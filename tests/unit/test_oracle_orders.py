"""The oracle is right about orders, day by day: small cases whose answers are known."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lakehouse.sample import DEFAULT_DIRT, DIRT, Recipe
from lakehouse.sample.generator import folder_files
from tests.oracle import OUTCOMES, Oracle, Result, dated, oracle
from tests.unit.oracle_shop import DAY, DAYS, change

REQUIRED = ("customer_id", "order_id", "ordered_at", "product_id", "status", "updated_at")


def orders(dirt: tuple[str, ...]) -> list[tuple[str, bytes]]:
    return [file for day in DAYS for file in folder_files("orders", day, Recipe.of(0.5, 7, dirt))]


def answers(*days: list[str]) -> Result:
    """The oracle's answers where the first day's file holds the first lines, and so on."""
    return oracle(
        (day, f"orders/{day}/part-0000.jsonl", "\n".join(found).encode())
        for day, found in zip(DAYS, days, strict=False)
    )


def counted(result: Result, day: date) -> dict[str, int]:
    return {name: number for name, number in result.batches[day].items() if number}


def reasons(text: str) -> list[str]:
    return [reason for rejected in answers([text]).quarantine for reason in rejected.reasons]


def test_oracle_reads_one_row_of_silver() -> None:
    text = change(21_930_000_001, 1, amount="$ 1,234.50", ordered_at="31/12/2025 23:59", quantity="3")
    assert answers([text]).silver == {
        21_930_000_001: {
            "order_id": 21_930_000_001,
            "customer_id": 1,
            "product_id": 2,
            "category": "toys",
            "region": "north",
            "quantity": 3,
            "amount": Decimal("1234.50"),
            "status": "new",
            "ordered_at": datetime(2025, 12, 31, 23, 59, tzinfo=UTC),
            "updated_at": datetime(2026, 1, 1, 1, tzinfo=UTC),
        }
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"after": {"id": 1', ["record.malformed"]),
        ("[1]", ["record.malformed"]),
        ("null", ["record.malformed"]),
        ("{}", [f"{name}.required" for name in REQUIRED]),
        (change(1, 1, quantity=0, status="??"), ["quantity.check", "status.accepted"]),
        (change(1, 1, quantity=1.5, customer_id=None), ["customer_id.required", "quantity.type"]),
        (change(1, 1, quantity=2**31), ["quantity.type"]),
        (change(1, 1, amount="n/a"), ["amount.type"]),
        (change(1, 1, amount="$1,23"), ["amount.type"]),
        (change(1, 1, amount="- £1,234,567"), ["amount.check"]),
        (change(1, 1, amount=float("nan")), ["record.malformed"]),
        (change(1, 1, quantity=3.0), []),
        (change(1, 1, amount=-0.01), ["amount.check"]),
        (change(1, 1, amount=10**10), ["amount.type"]),
        (change(1, 1, quantity=None, amount=None, region=None), []),
        (change(1, 1, ordered_at="2026-02-30T00:00:00Z"), ["ordered_at.type"]),
        (change(1, 1, ordered_at="01/01/2026"), ["ordered_at.type"]),
        (change(1, -48), []),
        (change(1, -48.01), ["record.late"]),
        (change(1, 1, op="d", status="??"), []),
        ('{"op": "d", "ts_ms": 1767225600000}', ["order_id.required"]),
    ],
)  # fmt: skip
def test_oracle_names_every_rule_that_a_line_breaks(text: str, expected: list[str]) -> None:
    assert reasons(text) == expected


def test_oracle_counts_empty_lines_in_offsets_but_not_in_bronze() -> None:
    result = answers(["", change(1, 1), "", "oops"])
    assert result.bronze == {DAY: 2}
    assert result.quarantine == [(DAY, f"s3://landing/orders/{DAY}/part-0000.jsonl", 3, ("record.malformed",))]


def test_oracle_counts_what_becomes_of_each_line() -> None:
    first, paid = change(1, 1, op="c"), change(1, 2, status="paid")
    result = answers(
        [first, first, paid, change(2, 1, op="c"), change(3, 1, op="c"), "oops"],
        [paid, change(1, 0.5), change(2, 30, op="d"), change(3, 30, status="paid"), change(4, 30, op="d")],
        [change(2, 29), change(4, 31), change(3, 29, status="cancelled"), change(3, 28, op="d")],
    )
    assert counted(result, DAYS[0]) == {
        "rows_in": 6, "inserted": 3, "duplicate": 1, "superseded": 1, "quarantined": 1,
    }  # fmt: skip
    assert counted(result, DAYS[1]) == {
        "rows_in": 5, "unchanged": 2, "superseded": 1, "deleted": 1, "updated": 1,
    }  # fmt: skip
    assert counted(result, DAYS[2]) == {"rows_in": 4, "superseded": 3, "inserted": 1}
    assert {key: row["status"] for key, row in result.silver.items()} == {1: "paid", 3: "paid", 4: "new"}


def test_oracle_adds_up_sales_by_day_region_and_category() -> None:
    result = answers(
        [
            change(1, 1, amount=10.00),
            change(2, 1, amount="$0.01"),
            change(3, 1, amount=99, status="cancelled"),
            change(4, 1, amount=5, region=None),
            change(5, 1, amount=7, ordered_at="2026-01-01T01:00:00+02:00"),
        ]
    )
    assert result.gold == [
        (date(2025, 12, 31), "north", "toys", Decimal("7.00"), 1, Decimal("7.00")),
        (DAY, None, "toys", Decimal("5.00"), 1, Decimal("5.00")),
        (DAY, "north", "toys", Decimal("10.01"), 2, Decimal("5.01")),
    ]


def test_oracle_s_counts_balance_and_its_batches_add_up_to_silver() -> None:
    found = orders(DIRT)
    result = oracle(dated(found))
    for counts in result.batches.values():
        assert counts["rows_in"] == sum(counts[name] for name in OUTCOMES)
    assert all(sum(counts[name] for counts in result.batches.values()) for name in OUTCOMES)
    assert sum(sale.orders for sale in result.gold) == sum(r["status"] != "cancelled" for r in result.silver.values())


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
def test_oracle_s_silver_does_not_depend_on_the_order_of_days(order: list[int]) -> None:
    found, shop = orders(DEFAULT_DIRT), Oracle("orders")
    for number in order:
        shop.run(DAYS[number], {key: data for day, key, data in dated(found) if day == DAYS[number]})
    assert shop.silver == oracle(dated(found)).silver
