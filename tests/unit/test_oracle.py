"""The oracle that judges the pipeline is right itself: small cases whose answers are known."""

from __future__ import annotations

import ast
import gzip
import json
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from oracle import (
    DATASETS,
    OUTCOMES,
    Change,
    Oracle,
    Result,
    Row,
    Run,
    click_sessions,
    dated,
    oracle,
    replayed,
)

from lakehouse.contracts import load
from lakehouse.contracts.model import Silver
from lakehouse.sample import DEFAULT_DIRT, DIRT, Recipe, corrected
from lakehouse.sample.generator import folder_files
from lakehouse.settings import ROOT

DAY = date(2026, 1, 1)
DAYS = [DAY + timedelta(days=number) for number in range(5)]
REQUIRED = ("customer_id", "order_id", "ordered_at", "product_id", "status", "updated_at")


# The oracle itself


def foreign(source: str) -> set[str]:
    """What a source imports that is neither Python's own nor its neighbour."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).split(".")[0])
    return found - sys.stdlib_module_names


@pytest.mark.parametrize("file", sorted((ROOT / "tests/oracle").glob("*.py")), ids=lambda file: file.name)
def test_oracle_imports_nothing_that_it_judges(file: Path) -> None:
    assert foreign(file.read_text()) == set()


def test_a_foreign_import_is_found() -> None:
    assert foreign("import lakehouse.x\nfrom spark_jobs.y import z\nfrom .w import v\nimport re") == {
        "lakehouse",
        "spark_jobs",
    }


@pytest.mark.parametrize("name", DATASETS)
def test_oracle_knows_every_column_of_the_contract(name: str) -> None:
    contract, known = load(ROOT / "include/contracts").contracts[f"silver.{name}"], DATASETS[name]
    assert isinstance(contract, Silver)
    assert list(known.shape.columns) == list(contract.columns)
    assert set(known.shape.rules) == set(contract.rules)
    assert (known.delivers, known.shape.late) == (contract.delivers, contract.late_data)
    assert (known.key,) == (contract.key or contract.duplicate_by)


# Orders, day by day


def orders(dirt: tuple[str, ...]) -> list[tuple[str, bytes]]:
    return [file for day in DAYS for file in folder_files("orders", day, Recipe.of(0.5, 7, dirt))]


def change(order: int, hour: float, op: str = "u", day: date = DAY, **after: Any) -> str:
    """A line of an order changed at an hour of a day."""
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=hour)
    state = {"id": order, "customer_id": 1, "product_id": 2, "category": "toys", "region": "north", "quantity": 1}
    state |= {"amount": 10.0, "status": "new", "ordered_at": "2026-01-01T00:00:00Z", **after}
    images = {"before": state, "after": None} if op == "d" else {"before": None, "after": state}
    return json.dumps({**images, "op": op, "ts_ms": int(at.timestamp() * 1000)})


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


# Which files a run takes


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


def statuses(shop: Oracle) -> dict[int, str]:
    return {key: row["status"] for key, row in shop.silver.items()}


def told(run: Run | None) -> list[tuple[str, int, str]]:
    """The change feed of orders: what, which, and its status."""
    return [(change.change, change.key, change.row["status"]) for change in ran(run).feed]


def test_a_run_that_finds_nothing_new_does_nothing() -> None:
    shop, folder = Oracle("orders"), put("orders", a=[change(1, 1)])
    ran(shop.run(DAY, folder))
    assert shop.run(DAY, folder) is None
    assert shop.run(DAY, {}) is None
    assert (shop.bronze, len(shop.runs), len(shop.silver)) == ({DAY: 1}, 1, 1)


def test_a_first_run_with_nothing_but_a_marker_is_a_run() -> None:
    shop = Oracle("orders")
    assert counts(shop.run(DAY, {f"orders/{DAY}/_SUCCESS": b"done"})) == {}
    assert shop.bronze == {DAY: 0}


def test_of_two_files_with_the_same_bytes_in_one_run_the_first_by_name_is_taken() -> None:
    shop = Oracle("orders")
    run = shop.run(DAY, put("orders", b=["oops"], a=["oops"]))
    assert ran(run).taken == (f"orders/{DAY}/a.jsonl",)
    assert [rejected.source_file for rejected in shop.quarantine] == [f"s3://landing/orders/{DAY}/a.jsonl"]
    assert shop.bronze == {DAY: 1}


def test_bytes_that_came_before_are_not_taken_again_on_another_day() -> None:
    shop, lines = Oracle("orders"), [change(1, 1), "oops"]
    shop.run(DAY, put("orders", a=lines))
    assert counts(shop.run(DAYS[1], put("orders", DAYS[1], again=lines))) == {}
    assert shop.bronze == {DAY: 2, DAYS[1]: 0}
    assert len(shop.quarantine) == 1


def test_the_same_bytes_in_a_day_that_is_done_are_nothing_new() -> None:
    shop, lines = Oracle("orders"), [change(1, 1)]
    shop.run(DAY, put("orders", a=lines))
    assert shop.run(DAY, put("orders", a=lines, b=lines)) is None
    assert shop.bronze == {DAY: 1}


def test_a_catalogue_may_be_that_of_the_day_before_but_not_twice_in_a_day() -> None:
    shop, lines = Oracle("products"), csv(row(1))
    shop.run(DAY, put("products", a=lines, b=lines))
    assert counts(shop.run(DAYS[1], put("products", DAYS[1], a=lines))) == {"rows_in": 1, "unchanged": 1}
    assert shop.bronze == {DAY: 1, DAYS[1]: 1}


def test_of_a_corrected_file_bronze_keeps_both_versions_and_all_else_the_newest() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=["oops", change(1, 1)]))
    run = ran(shop.run(DAY, put("orders", a=[change(1, 1, status="paid"), "o", "oops"])))
    assert shop.bronze == {DAY: 5}
    assert statuses(shop) == {1: "paid"}
    assert [rejected.source_offset for rejected in shop.quarantine] == [1, 2]
    assert run.counts is None


def test_a_correction_that_is_taken_back_is_a_third_version() -> None:
    shop, first = Oracle("orders"), put("orders", a=[change(1, 1)])
    for folder in (first, put("orders", a=[change(1, 1, status="paid")]), first):
        ran(shop.run(DAY, folder))
    assert statuses(shop) == {1: "new"}
    assert shop.bronze == {DAY: 3}


def test_bytes_that_no_file_brings_any_more_are_new() -> None:
    shop, wrong = Oracle("orders"), [change(1, 1)]
    shop.run(DAY, put("orders", a=wrong, b=wrong))
    shop.run(DAY, put("orders", a=[change(1, 2, status="paid")], b=wrong))
    run = shop.run(DAYS[1], put("orders", DAYS[1], again=wrong))
    assert counts(run) == {"rows_in": 1, "superseded": 1}


def test_a_file_that_changes_its_name_is_taken_under_the_new_one() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", b=[change(1, 1)]))
    run = ran(shop.run(DAY, put("orders", a=[change(1, 1)], b=[change(2, 1)])))
    assert run.taken == (f"orders/{DAY}/a.jsonl", f"orders/{DAY}/b.jsonl")
    assert statuses(shop) == {1: "new", 2: "new"}


def test_a_file_corrected_to_what_another_one_holds_brings_no_rows_of_its_own() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1)], b=[change(2, 1)]))
    assert told(shop.run(DAY, put("orders", a=[change(2, 1)], b=[change(2, 1)]))) == [("delete", 1, "new")]
    assert (shop.bronze, statuses(shop)) == ({DAY: 2}, {2: "new"})


def test_files_that_swap_their_bytes_still_bring_all_rows() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1)], b=[change(2, 1)]))
    assert told(shop.run(DAY, put("orders", b=[change(1, 1)], a=[change(2, 1)]))) == []
    assert (shop.bronze, statuses(shop)) == ({DAY: 4}, {1: "new", 2: "new"})


def test_a_file_that_comes_later_is_counted_with_the_whole_of_its_day() -> None:
    shop, first = Oracle("orders"), [change(1, 1), change(2, 1), "oops"]
    shop.run(DAY, put("orders", a=first))
    run = shop.run(DAY, put("orders", a=first, b=[change(2, 2, status="paid"), change(3, 1)]))
    assert counts(run) == {
        "rows_in": 5, "inserted": 1, "updated": 1, "unchanged": 1, "superseded": 1, "quarantined": 1,
    }  # fmt: skip
    assert shop.bronze == {DAY: 5}


# Changes


def test_a_correction_brings_an_older_version_back() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1)]))
    shop.run(DAYS[1], put("orders", DAYS[1], a=[change(1, 30, status="paid"), change(2, 30)]))
    run = shop.run(DAYS[1], put("orders", DAYS[1], a=[change(2, 30)]))
    assert told(run) == [("update_before", 1, "paid"), ("update_after", 1, "new")]
    assert statuses(shop) == {1: "new", 2: "new"}


def test_a_correction_makes_a_key_vanish() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1), change(2, 1)]))
    assert told(shop.run(DAY, put("orders", a=[change(2, 1)]))) == [("delete", 1, "new")]
    assert statuses(shop) == {2: "new"}


def test_a_correction_without_the_delete_brings_the_row_back() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1)]))
    shop.run(DAYS[1], put("orders", DAYS[1], a=[change(1, 30, op="d"), change(2, 30)]))
    assert statuses(shop) == {2: "new"}
    assert told(shop.run(DAYS[1], put("orders", DAYS[1], a=[change(2, 30)]))) == [("insert", 1, "new")]


def test_a_correction_of_what_was_overtaken_changes_nothing() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1)]))
    shop.run(DAYS[1], put("orders", DAYS[1], a=[change(1, 30, status="paid")]))
    assert told(shop.run(DAY, put("orders", a=[change(1, 1, status="cancelled")]))) == []


def test_runs_after_a_correction_are_counted_against_what_it_left() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 5, op="d"), change(2, 5)]))
    shop.run(DAY, put("orders", a=[change(2, 3)]))
    run = shop.run(DAYS[1], put("orders", DAYS[1], a=[change(1, 4), change(2, 4)]))
    assert counts(run) == {"rows_in": 2, "inserted": 1, "updated": 1}


def test_a_corrected_file_is_never_late() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, -49)], b=[change(2, -49)]))
    assert [rejected.reasons for rejected in shop.quarantine] == [("record.late",)] * 2
    shop.run(DAY, put("orders", a=[change(1, -49), change(3, -49)], b=[change(2, -49)]))
    assert statuses(shop) == {1: "new", 3: "new"}
    assert [rejected.source_file[-7:] for rejected in shop.quarantine] == ["b.jsonl"]


def test_of_changes_at_the_same_time_the_later_line_counts_and_then_the_later_file() -> None:
    paid, shipped, cancelled = (change(1, 1, status=status) for status in ("paid", "shipped", "cancelled"))
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[paid, shipped], b=[cancelled]))
    assert statuses(shop) == {1: "shipped"}
    shop.run(DAYS[1], put("orders", DAYS[1], a=["", cancelled]))
    assert statuses(shop) == {1: "cancelled"}


def test_a_day_that_comes_late_changes_only_what_is_not_overtaken() -> None:
    shop = Oracle("orders")
    shop.run(DAYS[1], put("orders", DAYS[1], a=[change(1, 30, status="paid"), change(2, 30, op="d")]))
    run = shop.run(DAY, put("orders", a=[change(1, 1), change(2, 1), change(3, 1)]))
    assert told(run) == [("insert", 3, "new")]
    assert counts(run) == {"rows_in": 3, "inserted": 1, "superseded": 2}


def test_the_feed_tells_rows_before_and_after() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1), change(2, 1), change(3, 1)]))
    before = dict(shop.silver)
    later = [change(1, 30, status="paid"), change(2, 30, op="d"), change(4, 30), change(3, 1)]
    run = ran(shop.run(DAYS[1], put("orders", DAYS[1], a=later)))
    assert run.feed == (
        Change("update_before", 1, before[1]),
        Change("update_after", 1, shop.silver[1]),
        Change("delete", 2, before[2]),
        Change("insert", 4, shop.silver[4]),
    )


def test_replaying_a_feed_refuses_what_does_not_fit() -> None:
    with pytest.raises(KeyError):
        replayed([[Change("delete", 1, {})]])
    with pytest.raises(AssertionError):
        replayed([[Change("insert", 1, {"x": 1}), Change("insert", 1, {"x": 2})]])
    with pytest.raises(AssertionError):
        replayed([[Change("insert", 1, {"x": 1}), Change("update_before", 1, {"x": 2})]])


@pytest.mark.parametrize("dataset", ["orders", "customers", "products"])
def test_the_feeds_of_all_runs_replayed_give_silver(dataset: str) -> None:
    recipe, shop = Recipe.of(0.3, 7, DIRT), Oracle(dataset)
    folders = {day: dict(folder_files(dataset, day, recipe)) for day in DAYS}
    for day in (DAYS[0], DAYS[2], DAYS[1], DAYS[3], DAYS[4]):
        shop.run(day, folders[day])
    for day in (DAYS[4], DAYS[1], DAYS[0]):
        shop.run(day, folders[day] | dict([corrected(dataset, day, recipe)]))
    assert replayed(run.feed for run in shop.runs) == shop.silver != {}
    kinds = {change.change for run in shop.runs if run.counts is None for change in run.feed}
    assert kinds == {"insert", "update_before", "update_after", "delete"}


# Customers


def customer(number: int, hour: float = 1, op: str = "u", **after: Any) -> str:
    """A line of a customer changed at an hour of the first day."""
    state = {"id": number, "name": "Ann", "email": "ann@example.com", "region": "north", "segment": "trial"}
    state |= {"created_at": "2025-12-01T00:00:00Z", **after}
    images = {"before": state, "after": None} if op == "d" else {"before": None, "after": state}
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
    return json.dumps({**images, "op": op, "ts_ms": int(at.timestamp() * 1000)})


def broken(dataset: str, *lines: str) -> list[tuple[str, ...]]:
    """The reasons for which lines are rejected."""
    shop = Oracle(dataset)
    shop.run(DAY, put(dataset, a=list(lines)))
    return [rejected.reasons for rejected in shop.quarantine]


def test_oracle_reads_one_customer() -> None:
    shop = Oracle("customers")
    shop.run(DAY, put("customers", a=[customer(7, name=" Ann ", email=" Ann+1@Example.COM ")]))
    assert shop.silver == {
        7: {
            "customer_id": 7,
            "name": "Ann",
            "email": "ann+1@example.com",
            "region": "north",
            "segment": "trial",
            "created_at": datetime(2025, 12, 1, tzinfo=UTC),
            "updated_at": datetime(2026, 1, 1, 1, tzinfo=UTC),
        }
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (customer(1, email="nobody.example.com"), ("email.matches",)),
        (customer(1, email="a@b.de\n"), ("email.matches",)),
        (customer(1, email=None, segment="??"), ("email.required", "segment.accepted")),
        (customer(1, created_at="2026-01-01T01:00:01Z"), ("rule.created_first",)),
        (customer(1, created_at="soon"), ("created_at.type",)),
        (customer(1, email="a@b", created_at="2026-01-01T01:00:00Z"), ("email.matches",)),
        (customer(1, -49), ("record.late",)),
        ('{"op": "u", "op": "d"}', ("record.malformed",)),
    ],
)
def test_oracle_names_the_rules_that_a_customer_breaks(line: str, expected: tuple[str, ...]) -> None:
    assert broken("customers", line) == [expected]


def test_a_delete_is_read_in_its_key_and_its_time_only() -> None:
    assert broken("customers", customer(1, op="d", email="?", created_at="2099-01-01T00:00:00Z")) == []


# Products


def csv(*rows: str) -> list[str]:
    return ["id,name,category,price,active", *rows]


def row(number: int, price: str = "1.00") -> str:
    return f"{number},Thing,toys,{price},true"


def prices(shop: Oracle) -> dict[int, Decimal]:
    return {key: row["price"] for key, row in shop.silver.items()}


def test_oracle_reads_a_catalogue() -> None:
    shop = Oracle("products")
    shop.run(DAY, put("products", a=csv('1,"A ""big"", red\nthing",,"$1,234.50",true', '2, B ,"",.5,f', "")))
    assert list(shop.silver.values()) == [
        {"product_id": 1, "name": 'A "big", red\nthing', "category": None, "price": Decimal("1234.50"), "active": True},
        {"product_id": 2, "name": "B", "category": "", "price": Decimal("0.50"), "active": False},
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1,A,toys,1.00", ("record.malformed",)),
        ("1,A,toys,1.00,true,more", ("record.malformed",)),
        (",A,toys,-0.01,maybe", ("active.type", "price.check", "product_id.required")),
        ("x,,toys,n/a,", ("active.required", "name.required", "price.type", "product_id.type")),
        ("1,A,toys,1.005,true", ("price.type",)),
        ("1,A,toys,100000000,true", ("price.type",)),
    ],
)
def test_oracle_names_the_rules_that_a_product_breaks(line: str, expected: tuple[str, ...]) -> None:
    assert broken("products", *csv(line)) == [expected]


def test_records_of_a_catalogue_are_numbered_without_its_header() -> None:
    shop = Oracle("products")
    shop.run(DAY, put("products", a=csv("oops", row(1), "oops")))
    assert [rejected.source_offset for rejected in shop.quarantine] == [0, 2]
    assert shop.bronze == {DAY: 3}


def test_a_snapshot_brings_changes_and_takes_what_it_lacks() -> None:
    shop = Oracle("products")
    shop.run(DAY, put("products", a=csv(row(1), row(2), row(3))))
    run = ran(shop.run(DAYS[1], put("products", DAYS[1], a=csv(row(1), row(2, "2.00"), row(4)))))
    assert counts(run) == {"rows_in": 3, "inserted": 1, "updated": 1, "unchanged": 1, "vanished": 1}
    assert prices(shop) == {1: Decimal("1.00"), 2: Decimal("2.00"), 4: Decimal("1.00")}
    assert [(change.change, change.key) for change in run.feed] == [
        ("update_before", 2), ("update_after", 2), ("delete", 3), ("insert", 4),
    ]  # fmt: skip


def test_a_product_whose_record_is_rejected_stays_as_it_is() -> None:
    shop = Oracle("products")
    shop.run(DAY, put("products", a=csv(row(1), row(2))))
    run = shop.run(DAYS[1], put("products", DAYS[1], a=csv(row(1, "n/a"), row(3, "n/a"), "x,,,,", "oops")))
    assert counts(run) == {"rows_in": 4, "quarantined": 4, "vanished": 1}
    assert prices(shop) == {1: Decimal("1.00")}


def test_a_product_with_a_good_record_besides_the_rejected_one_is_taken() -> None:
    shop = Oracle("products")
    shop.run(DAY, put("products", a=csv(row(1))))
    shop.run(DAYS[1], put("products", DAYS[1], a=csv(row(1, "2.00"), row(1, "n/a"))))
    assert prices(shop) == {1: Decimal("2.00")}


def test_a_snapshot_older_than_the_table_changes_nothing() -> None:
    shop = Oracle("products")
    shop.run(DAYS[1], put("products", DAYS[1], a=csv(row(1))))
    run = ran(shop.run(DAY, put("products", a=csv(row(1, "9.00"), row(2), row(2), row(3, "n/a")))))
    assert counts(run) == {"rows_in": 4, "superseded": 2, "duplicate": 1, "quarantined": 1}
    assert (run.feed, prices(shop), shop.bronze[DAY]) == ((), {1: Decimal("1.00")}, 4)


def test_a_snapshot_that_is_corrected_replaces_the_newest_day_and_no_older_one() -> None:
    shop = Oracle("products")
    for day in DAYS[:2]:
        shop.run(day, put("products", day, a=csv(row(1), row(2))))
    shop.run(DAY, put("products", a=csv(row(1, "7.00"))))
    assert prices(shop) == {1: Decimal("1.00"), 2: Decimal("1.00")}
    shop.run(DAYS[1], put("products", DAYS[1], a=csv(row(1, "8.00"), row(3))))
    assert prices(shop) == {1: Decimal("8.00"), 3: Decimal("1.00")}


def test_a_product_that_comes_twice_is_that_of_the_later_record_and_then_of_the_later_file() -> None:
    shop = Oracle("products")
    first = csv(row(1, "1.00"), row(2, "1.00"), row(1, "2.00"), row(3), row(3))
    run = shop.run(DAY, put("products", a=first, b=csv(row(1, "3.00"), row(2, "2.00"))))
    assert prices(shop) == {1: Decimal("2.00"), 2: Decimal("2.00"), 3: Decimal("1.00")}
    assert counts(run) == {"rows_in": 7, "inserted": 3, "superseded": 3, "duplicate": 1}


def test_a_day_without_a_catalogue_leaves_the_table_alone() -> None:
    shop = Oracle("products")
    shop.run(DAY, put("products", a=csv(row(1))))
    assert counts(shop.run(DAYS[1], {})) == {}
    assert prices(shop) == {1: Decimal("1.00")}


# Clicks


def click(event: str, at: str = "2026-01-01T10:00:00.000Z", url: str = "/", user: int = 1) -> str:
    return json.dumps({"event_id": event, "user_id": user, "url": url, "at": at})


def clicked(minutes: float, event: str, url: str = "/", user: int = 1, day: date = DAY) -> Row:
    """A row of silver.clicks."""
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=minutes)
    return {"event_id": event, "user_id": user, "url": url, "page": "home", "clicked_at": at}


def test_oracle_reads_one_click() -> None:
    shop = Oracle("clicks")
    shop.run(DAY, put("clicks", a=[click("e", "2026-01-01T10:00:00.123Z", "/product/7")]))
    at = datetime(2026, 1, 1, 10, 0, 0, 123_000, tzinfo=UTC)
    assert shop.silver == {
        (DAY, "e"): {"event_id": "e", "user_id": 1, "url": "/product/7", "page": "product", "clicked_at": at}
    }
    assert ran(shop.runs[0]).feed == ()


@pytest.mark.parametrize(
    ("url", "page"),
    [("/", "home"), ("/cart", "cart"), ("/product/7/more", "product"), ("/?a=/b", "home"), ("/cart#top", "cart")],
)
def test_a_page_is_the_first_part_of_the_path(url: str, page: str) -> None:
    shop = Oracle("clicks")
    shop.run(DAY, put("clicks", a=[click("e", url=url)]))
    assert [found["page"] for found in shop.silver.values()] == [page]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (click("e", url="cart"), ("url.matches",)),
        (click("e", url="/a b"), ("url.matches",)),
        (click("e", at="2026-01-01T10:00:00Z"), ("clicked_at.type",)),
        ('{"event_id": null}', ("clicked_at.required", "event_id.required", "url.required", "user_id.required")),
    ],
)
def test_oracle_names_the_rules_that_a_click_breaks(line: str, expected: tuple[str, ...]) -> None:
    assert broken("clicks", line) == [expected]


def test_of_an_event_that_came_twice_in_an_interval_the_first_by_file_and_line_stays() -> None:
    shop = Oracle("clicks")
    run = shop.run(DAY, put("clicks", b=[click("e", url="/b")], a=["", click("e", url="/a1"), click("e", url="/a2")]))
    assert [found["url"] for found in shop.silver.values()] == ["/a1"]
    assert counts(run) == {"rows_in": 3, "inserted": 1, "duplicate": 2}


def test_an_event_that_came_on_two_days_is_there_twice() -> None:
    shop = Oracle("clicks")
    for day in DAYS[:2]:
        shop.run(day, put("clicks", day, a=[click("e"), click(str(day))]))
    assert list(shop.silver) == [(DAY, str(DAY)), (DAY, "e"), (DAYS[1], str(DAYS[1])), (DAYS[1], "e")]


def test_a_run_of_events_replaces_what_its_interval_brought_and_no_other() -> None:
    shop = Oracle("clicks")
    for day in DAYS[:2]:
        shop.run(day, put("clicks", day, a=[click("e"), click("f"), f"oops {day}"]))
    shop.run(DAY, put("clicks", a=[click("f", url="/cart"), click("g")]))
    assert {key: found["url"] for key, found in shop.silver.items()} == {
        (DAY, "f"): "/cart", (DAY, "g"): "/", (DAYS[1], "e"): "/", (DAYS[1], "f"): "/",
    }  # fmt: skip
    assert ([rejected.day for rejected in shop.quarantine], shop.bronze[DAY]) == ([DAYS[1]], 5)


@pytest.mark.parametrize("dataset", DATASETS)
def test_all_counts_balance_though_days_come_out_of_order(dataset: str) -> None:
    shop, recipe = Oracle(dataset), Recipe.of(0.2, 7, DIRT)
    for day in (DAYS[0], DAYS[2], DAYS[1]):
        found = ran(shop.run(day, dict(folder_files(dataset, day, recipe)))).counts or {}
        assert found["rows_in"] == shop.bronze[day] == sum(found[name] for name in OUTCOMES)
    assert sum(shop.bronze.values()) > 0


# Gold


def test_a_session_ends_where_more_than_30_minutes_pass() -> None:
    found = click_sessions([clicked(90, "d"), clicked(60, "c", "/cart"), clicked(0, "a"), clicked(30, "b")])
    assert [(s.session_number, s.clicks, s.pages) for s in found] == [(1, 4, 2)]
    found = click_sessions([clicked(0, "a"), clicked(30.001, "b"), clicked(31, "c")])
    assert [(s.session_number, s.clicks) for s in found] == [(1, 1), (2, 2)]


def test_a_session_is_one_visitor_s_and_cut_at_midnight() -> None:
    rows = [clicked(1439, "a"), clicked(1441, "b"), clicked(1439, "c", user=2)]
    assert [s[:3] for s in click_sessions(rows)] == [(DAY, 1, 1), (DAY, 2, 1), (DAYS[1], 1, 1)]


def test_an_event_that_came_twice_is_one_click() -> None:
    (found,) = click_sessions([clicked(0, "a"), clicked(0, "a"), clicked(5, "b")])
    assert found[3:] == (clicked(0, "")["clicked_at"], clicked(5, "")["clicked_at"], 2, 1)


def sessions_by_sql(rows: list[Row], file: Path) -> list[tuple[Any, ...]]:
    """What the dataset's own query gives; DuckDB understands it as Spark does."""
    # Through a file: given Python's values, DuckDB imports pandas, which takes seconds.
    values = ([row["event_id"], row["user_id"], row["url"], f"{row['clicked_at']:%F %T.%f}"] for row in rows)
    file.write_text("".join("\t".join(map(str, value)) + "\n" for value in values))
    types = "{event_id: 'TEXT', user_id: 'BIGINT', url: 'TEXT', clicked_at: 'TIMESTAMP'}"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE silver_clicks AS FROM read_csv('{file}', delim='\t', columns={types})")
        found = connection.execute((ROOT / "include/contracts/gold/click_sessions.sql").read_text()).fetchall()
    return [tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in found]


def test_the_query_for_sessions_says_what_the_oracle_says(tmp_path: Path) -> None:
    shop, recipe = Oracle("clicks"), Recipe.of(0.2, 7, DIRT)
    for day in DAYS[:2]:
        shop.run(day, dict(folder_files("clicks", day, recipe)))
    made = [clicked(minutes, str(number)) for number, minutes in enumerate([0, 30, 60.01, 60.01, 95, 1435, 1445])]
    rows = [*shop.silver.values(), *made]
    expected = click_sessions(rows)
    assert sorted(sessions_by_sql(rows, tmp_path / "clicks.tsv")) == expected
    assert max(session.session_number for session in expected) > 2
    assert len({session.session_date for session in expected}) > 2
