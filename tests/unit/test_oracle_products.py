"""The oracle is right about products: each catalogue is the whole table, and the newest one counts."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.oracle import Oracle
from tests.unit.oracle_shop import DAY, DAYS, broken, counts, put, ran


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
    run = shop.run(DAYS[1], put("products", DAYS[1], a=csv(row(1, "n/a"), row(3, "n/a"))))
    assert counts(run) == {"rows_in": 2, "quarantined": 2, "vanished": 1}
    assert prices(shop) == {1: Decimal("1.00")}


@pytest.mark.parametrize("broken", ["oops", "x,A,toys,1.00,true", ",A,toys,1.00,true"])
def test_no_product_goes_while_a_record_may_be_that_of_any(broken: str) -> None:
    shop = Oracle("products")
    shop.run(DAY, put("products", a=csv(row(1), row(2))))
    run = shop.run(DAYS[1], put("products", DAYS[1], a=csv(row(1, "2.00"), broken)))
    assert counts(run) == {"rows_in": 2, "quarantined": 1, "updated": 1, "spared": 1}
    assert prices(shop) == {1: Decimal("2.00"), 2: Decimal("1.00")}
    shop.run(DAYS[2], put("products", DAYS[2], a=csv(row(1, "2.00"))))
    assert prices(shop) == {1: Decimal("2.00")}


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


def test_a_catalogue_may_be_that_of_the_day_before_but_not_twice_in_a_day() -> None:
    shop, lines = Oracle("products"), csv(row(1))
    shop.run(DAY, put("products", a=lines, b=lines))
    assert counts(shop.run(DAYS[1], put("products", DAYS[1], a=lines))) == {"rows_in": 1, "unchanged": 1}
    assert shop.bronze == {DAY: 1, DAYS[1]: 1}
