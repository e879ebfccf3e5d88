"""From raw records to typed rows: each rule, by what it says of a record that keeps it and of one that breaks it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lakehouse.contracts import Silver, load
from lakehouse.settings import ROOT
from spark_jobs.parsing import DELETED, REASONS, parsed

END = datetime(2026, 1, 2, tzinfo=UTC)
NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z, in milliseconds
LAYERED = {
    "sla": {"ready_within": "1h"},
    "retention": {"snapshots": "7d"},
    "maintenance": {"tier": "daily"},
}
ORDER = {
    "id": 7,
    "customer_id": 1,
    "product_id": 2,
    "category": "toys",
    "region": "north",
    "quantity": 3,
    "amount": "$1,234.50",
    "status": "new",
    "ordered_at": "2026-01-01T11:00:00Z",
}


def silver(columns: dict[str, dict[str, Any]], **more: Any) -> Silver:
    """A contract with the given columns beside its key."""
    key = {"id": {"type": "bigint", "required": True, "from": "id"}}
    return Silver.model_validate(
        {
            "dataset": "silver.things",
            "description": "Things.",
            "owner": "team",
            "start": "2026-01-01",
            "reads": "bronze.things",
            "columns": key | columns,
            "key": ["id"],
            "newest_by": ["_source_offset"],
            **LAYERED,
            **more,
        }
    )


def orders() -> Silver:
    found = load(ROOT / "include/contracts").contracts["silver.orders"]
    assert isinstance(found, Silver)
    return found


def frame(spark, *payloads: Any) -> DataFrame:
    """Bronze rows of payloads, which are texts or become JSON."""
    texts = [payload if isinstance(payload, str | None) else json.dumps(payload) for payload in payloads]
    return spark.createDataFrame(list(enumerate(texts)), "_source_offset bigint, _raw_payload string")


def read(spark, contract: Silver, *payloads: Any) -> list[Row]:
    return parsed(frame(spark, *payloads), contract, END).orderBy("_source_offset").collect()


def utc(*parts: int) -> datetime:
    """A time as collected rows hold it: of UTC, without saying so."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


def values(spark, column: dict[str, Any], *given: Any) -> list[Any]:
    """What a column makes of each value; the name of the broken rule where it rejects it."""
    contract = silver({"x": {"from": "x", **column}})
    found = read(spark, contract, *({"id": 1, "x": value} for value in given))
    return [row[REASONS][0] if row[REASONS] else row["x"] for row in found]


def reasons(spark, contract: Silver, *payloads: Any) -> list[list[str]]:
    return [row[REASONS] for row in read(spark, contract, *payloads)]


def change(op: str = "u", ts_ms: Any = NOON, **after: Any) -> dict[str, Any]:
    return {"op": op, "ts_ms": ts_ms, "before": None, "after": {**ORDER, **after}}


def test_a_good_order_becomes_a_typed_row(spark):
    (row,) = read(spark, orders(), change())
    assert row[REASONS] == []
    assert row[DELETED] is False
    assert (row["order_id"], row["quantity"], row["amount"]) == (7, 3, Decimal("1234.50"))
    assert (row["ordered_at"], row["updated_at"]) == (utc(2026, 1, 1, 11), utc(2026, 1, 1, 12))


def test_a_parsed_row_has_the_columns_of_bronze_and_of_the_contract_and_no_scaffolding(spark):
    (row,) = read(spark, silver({}), {"id": 1})
    assert sorted(row.asDict()) == sorted(["_source_offset", "_raw_payload", "id", DELETED, REASONS])


def test_what_is_not_one_json_object_is_malformed_and_nothing_else_is_said_of_it(spark):
    payloads = [
        '{"op": "u", "after": {"id": 7',
        "[]",
        '[{"id": 1}]',
        "7",
        '"text"',
        "null",
        "",
        "   ",
        "garbage",
        "{id: 1}",
        "{'id': 1}",
        '{"id": NaN}',
        '{"id": 1, "id": 2}',
        '{"id": 1}}',
        '{"id": 1} garbage',
        '{"id": 1}{"id": 2}',
        '{"id": 1}, {"id": 2}',
        '{"id": 1},',
        '{"id": 1}]',
        "\\x7b\\xff",
    ]
    found = reasons(spark, silver({"x": {"type": "int", "required": True, "from": "x"}}), *payloads)
    assert dict(zip(payloads, found, strict=True)) == {payload: ["record.malformed"] for payload in payloads}


def test_a_payload_that_is_missing_is_malformed(spark):
    assert reasons(spark, silver({}), None) == [["record.malformed"]]


def test_white_space_around_a_record_does_no_harm(spark):
    assert reasons(spark, silver({}), ' \t{"id": 1}\r ', '{"id"\t:\n1}') == [[], []]


def test_one_malformed_record_leaves_its_neighbours_alone(spark):
    found = read(spark, silver({}), {"id": 1}, "garbage", {"id": 2})
    assert [(row["id"], row[REASONS]) for row in found] == [(1, []), (None, ["record.malformed"]), (2, [])]


def test_a_required_value_must_be_there(spark):
    contract = silver({"x": {"type": "string", "required": True, "from": "a.x"}})
    missing = [{"id": 1}, {"id": 1, "a": None}, {"id": 1, "a": {}}, {"id": 1, "a": {"x": None}}, {"id": 1, "a": 5}]
    assert reasons(spark, contract, *missing) == [["x.required"]] * len(missing)
    assert reasons(spark, contract, {"id": 1, "a": {"x": ""}}) == [[]]


def test_a_value_that_is_not_required_may_be_missing(spark):
    assert values(spark, {"type": "int", "accepted": ["1"], "check": "x > 0"}, None) == [None]


def test_an_int_is_a_whole_number_that_fits(spark):
    given = [3, "4", " 5 ", -1, 3.0, 2.5, "2.5", 2**31, "ten", "", True, {"a": 1}]
    assert values(spark, {"type": "int"}, *given) == [3, 4, 5, -1, 3, *["x.type"] * 7]


def test_a_bigint_is_not_rounded_on_its_way(spark):
    exact = 2**53 + 1
    assert values(spark, {"type": "bigint"}, exact, str(exact), 2**63) == [exact, exact, "x.type"]


def test_a_decimal_is_exact_or_rejected(spark):
    given = ["12.34", 12.34, "12.3", 12, "12.3400", "1e1", "12.345", 12.345, "0.001", "1e-3", "12a", "", "NaN"]
    good = [Decimal(text) for text in ("12.34", "12.34", "12.30", "12.00", "12.34", "10.00")]
    assert values(spark, {"type": "decimal(12,2)"}, *given) == [*good, *["x.type"] * 7]


def test_a_decimal_must_fit_its_precision(spark):
    given = ["9999999999.99", "10000000000.00", "-9999999999.99"]
    found = values(spark, {"type": "decimal(12,2)"}, *given)
    assert found == [Decimal("9999999999.99"), "x.type", Decimal("-9999999999.99")]


def test_a_decimal_may_have_more_digits_than_a_comparison_holds(spark):
    digits = "1234567890" * 3 + "12345678"
    found = values(spark, {"type": "decimal(38,0)"}, digits, f"{digits}.0", "1.5", "1e3")
    assert found == [Decimal(digits), Decimal(digits), "x.type", Decimal(1000)]
    small = "0.0000000000000000000000000001"
    assert values(spark, {"type": "decimal(38,30)"}, small) == [Decimal(small)]


def test_a_double_is_a_number(spark):
    given = [1.5, "2.5e3", "NaN", "Infinity", "-Infinity", "much"]
    assert values(spark, {"type": "double"}, *given) == [1.5, 2500.0, *["x.type"] * 4]


def test_a_boolean_is_true_or_false(spark):
    assert values(spark, {"type": "boolean"}, True, "false", "maybe") == [True, False, "x.type"]


def test_currency_is_cleaned_before_the_cast(spark):
    column = {"type": "decimal(12,2)", "clean": "currency"}
    given = ["$1,234.50", "€ 5", "-£3.20", 12.5, "1.234,50", "five dollars"]
    good = [Decimal(text) for text in ("1234.50", "5.00", "-3.20", "12.50")]
    assert values(spark, column, *given) == [*good, "x.type", "x.type"]


def test_cleaners_work_one_after_the_other(spark):
    assert values(spark, {"type": "string", "clean": ["trim", "upper"]}, "  de ") == ["DE"]
    assert values(spark, {"type": "string", "clean": ["lower"]}, "ABC") == ["abc"]
    assert values(spark, {"type": "bigint", "clean": ["digits"]}, "+49 (30) 123") == [4930123]


def test_each_accepted_form_of_a_time_is_read_and_no_other(spark):
    column = {"type": "timestamp", "formats": ["yyyy-MM-dd'T'HH:mm:ssX", "dd/MM/yyyy HH:mm"]}
    given = ["2026-01-01T12:00:00Z", "2026-01-01T12:00:00+02", "01/02/2026 12:30"]
    bad = ["2026-01-01 12:00:00", "01/13/2026 12:30", "2026-02-30T00:00:00Z", "", "soon", NOON]
    good = [utc(2026, 1, 1, 12), utc(2026, 1, 1, 10), utc(2026, 2, 1, 12, 30)]
    assert values(spark, column, *given, *bad) == [*good, *["x.type"] * len(bad)]


def test_epochs_are_read_as_numbers_or_texts(spark):
    noon = utc(2026, 1, 1, 12)
    found = values(spark, {"type": "timestamp", "formats": ["epoch_ms"]}, NOON, str(NOON), NOON + 1, 0.5, "x")
    assert found == [noon, noon, noon.replace(microsecond=1000), "x.type", "x.type"]
    assert values(spark, {"type": "timestamp", "formats": "epoch_s"}, NOON // 1000, "x") == [noon, "x.type"]


@pytest.mark.parametrize("form", ["epoch_ms", "epoch_s"])
def test_an_epoch_beyond_all_calendars_is_rejected_and_does_not_end_the_batch(spark, form):
    given = [2**63 - 1, -(2**63), 2**62, 10**15]
    assert values(spark, {"type": "timestamp", "formats": form}, *given, 0) == [
        *["x.type"] * len(given),
        utc(1970, 1, 1),
    ]


def test_the_last_moment_of_the_calendar_is_still_a_time(spark):
    last = utc(9999, 12, 31, 23, 59, 59, 999000)
    found = values(spark, {"type": "timestamp", "formats": "epoch_ms"}, 253_402_300_799_999, 253_402_300_800_000)
    assert found == [last, "x.type"]


def test_a_time_without_formats_is_read_in_iso_form_and_utc(spark):
    given = ["2026-01-01 12:00:00", "2026-01-01T12:00:00+01:00", "+292000-01-01", "noon"]
    good = [utc(2026, 1, 1, 12), utc(2026, 1, 1, 11)]
    assert values(spark, {"type": "timestamp"}, *given) == [*good, "x.type", "x.type"]


def test_a_date_is_a_day(spark):
    day = date(2026, 1, 31)
    assert values(spark, {"type": "date"}, "2026-01-31", "2026-02-31", "20000-01-01") == [day, "x.type", "x.type"]
    assert values(spark, {"type": "date", "formats": "dd.MM.yyyy"}, "31.01.2026", "2026-01-31") == [day, "x.type"]


def test_only_accepted_values_pass(spark):
    assert values(spark, {"type": "string", "accepted": ["new", "paid"]}, "new", "New", "") == [
        "new",
        "x.accepted",
        "x.accepted",
    ]
    assert values(spark, {"type": "int", "accepted": ["1", "2"]}, 1, 3) == [1, "x.accepted"]


def test_a_check_rejects_what_is_false_and_lets_the_unknown_pass(spark):
    contract = silver(
        {"x": {"type": "int", "from": "x", "check": "x > 0"}, "y": {"type": "int", "from": "y", "check": "y >= x"}}
    )
    payloads = [{"id": 1, "x": 1, "y": 1}, {"id": 1, "x": 0}, {"id": 1}, {"id": 1, "x": 2, "y": 1}, {"id": 1, "y": 5}]
    assert reasons(spark, contract, *payloads) == [[], ["x.check"], [], ["y.check"], []]


def test_every_broken_rule_is_named_in_order(spark):
    bad = change(customer_id=None, product_id="p", quantity=0, amount="-1", status="lost", ordered_at="soon")
    assert reasons(spark, orders(), bad) == [
        [
            "amount.check",
            "customer_id.required",
            "ordered_at.type",
            "product_id.type",
            "quantity.check",
            "status.accepted",
        ]
    ]


def test_of_several_paths_the_first_with_a_value_counts(spark):
    contract = silver({"x": {"type": "string", "from": ["after.x", "before.x"]}})
    payloads = [
        {"id": 1, "after": {"x": "new"}, "before": {"x": "old"}},
        {"id": 1, "after": {"x": None}, "before": {"x": "old"}},
        {"id": 1, "after": None, "before": {"x": "old"}},
        {"id": 1},
    ]
    assert [row["x"] for row in read(spark, contract, *payloads)] == ["new", "old", "old", None]


def test_a_path_may_hold_any_character_but_the_dot(spark):
    names = ["it's", 'a "b"', "a`b", "a b", "a[0]", "a]b", "$", "a\\b", "ä", 'it\'s "it"']
    contract = silver({f"x{n}": {"type": "string", "from": f"outer.{name}"} for n, name in enumerate(names)})
    (row,) = read(spark, contract, {"id": 1, "outer": {name: name for name in names}})
    assert [row[f"x{n}"] for n in range(len(names))] == names


def test_names_are_told_apart_by_case(spark):
    contract = silver({"x": {"type": "string", "from": "Name"}})
    assert [row["x"] for row in read(spark, contract, {"id": 1, "name": "small", "Name": "big"})] == ["big"]


def test_a_delete_is_checked_on_its_key_and_its_time_only(spark):
    gone = {"op": "d", "ts_ms": NOON, "before": {"id": 7}, "after": None}
    (row,) = read(spark, orders(), gone)
    assert (row["order_id"], row[DELETED], row[REASONS]) == (7, True, [])
    assert reasons(spark, orders(), {**gone, "before": {"id": "x"}}) == [["order_id.type"]]
    assert reasons(spark, orders(), {**gone, "before": None, "ts_ms": None}) == [
        ["order_id.required", "updated_at.required"]
    ]
    assert reasons(spark, orders(), {**gone, "after": {"id": 7, "quantity": -1, "status": "lost"}}) == [[]]


def test_a_condition_for_deletes_reads_the_record_and_leaves_its_texts_alone(spark):
    cases = [
        ("op = 'd'", {"op": "d"}),
        ('op = "d"', {"op": "d"}),
        ("`op` = 'd'", {"op": "d"}),
        ("op IN ('d', 'x')", {"op": "x"}),
        ("lower(op) = 'd'", {"op": "D"}),
        ("NOT (op = 'c' OR op = 'u')", {"op": "d"}),
        ("source.table = 'gone and op'", {"source": {"table": "gone and op"}}),
        ("`source.my table` = 'x'", {"source": {"my table": "x"}}),
        ("op = 'it\\'s op'", {"op": "it's op"}),
        ("gone IS NOT NULL", {"gone": False}),
        ("gone = 'true' AND op IS NULL", {"gone": True}),
        ("n > 5", {"n": 6}),
    ]
    other = {"id": 2, "op": "c", "n": 5}
    frames = [
        parsed(frame(spark, {"id": 1, **record}, other), silver({}, delete_when=condition), END).select(
            F.lit(condition).alias("condition"), "id", DELETED
        )
        for condition, record in cases
    ]
    found = {(row["condition"], row["id"]): row[DELETED] for row in reduce(DataFrame.union, frames).collect()}
    assert found == {(condition, key): key == 1 for condition, _ in cases for key in (1, 2)}


def test_without_a_condition_nothing_is_a_delete(spark):
    assert [row[DELETED] for row in read(spark, silver({}), {"id": 1, "op": "d"})] == [False]


def test_a_change_is_late_by_its_own_time_and_not_at_the_limit(spark):
    limit = NOON + 12 * 3_600_000 - 3 * 86_400_000
    old = "2020-01-01T00:00:00Z"
    payloads = [change(ts_ms=limit), change(ts_ms=limit - 1), change(ordered_at=old), change("d", ts_ms=limit - 1)]
    assert reasons(spark, orders(), *payloads) == [[], ["record.late"], [], ["record.late"]]


def test_a_late_change_with_other_faults_has_all_its_reasons(spark):
    assert reasons(spark, orders(), change(ts_ms=0, quantity=0)) == [["quantity.check", "record.late"]]


def test_without_a_limit_nothing_is_late(spark):
    contract = orders().model_copy(update={"late_data": None})
    assert reasons(spark, contract, change(ts_ms=0)) == [[]]
