"""What is said of a whole record: required values, expressions and rules across columns, deletes, lateness."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import reduce

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.parsing import DELETED, REASONS, parsed
from tests.spark.raw_records import (
    END,
    MONEY,
    NOON,
    change,
    frame,
    orders,
    read,
    reasons,
    silver,
)


def test_a_required_value_must_be_there(spark):
    contract = silver({"x": {"type": "string", "required": True, "from": "a.x"}})
    missing = [{"id": 1}, {"id": 1, "a": None}, {"id": 1, "a": {}}, {"id": 1, "a": {"x": None}}, {"id": 1, "a": 5}]
    found = reasons(spark, contract, *missing, {"id": 1, "a": {"x": ""}})
    assert found == [*[["x.required"]] * len(missing), []]


def test_every_broken_rule_is_named_in_order(spark):
    bad = change(customer_id=None, product_id="p", quantity=0, amount="-1", status="lost", ordered_at="soon", ts_ms=0)
    assert reasons(spark, orders(), bad) == [
        [
            "amount.check",
            "customer_id.required",
            "ordered_at.type",
            "product_id.type",
            "quantity.check",
            "record.late",
            "status.accepted",
        ]
    ]


def test_an_expression_is_computed_from_columns_wherever_and_expressions_above(spark):
    contract = silver(
        {
            "net": {"type": MONEY, "expr": "price * (1 - coalesce(discount, 0))"},
            "gross": {"type": MONEY, "expr": "Net * 1.2", "between": [0, 100]},
            "file": {"type": "string", "expr": "upper(_source_file)", "matches": "FILE-[0-3]"},
            "price": {"type": MONEY, "from": "price"},
            "discount": {"type": MONEY, "from": "discount"},
            "day": {"type": "date", "expr": "`day_text`", "required": True},
            "day_text": {"type": "string", "from": "day"},
            "rate": {"type": "double", "expr": "100 / price", "check": "rate < 100", "required": True},
            "half_rate": {"type": "double", "expr": "100 / price / 2"},
            "size": {"type": "int", "expr": "price * 1000000000"},
        }
    )
    good = {"id": 1, "price": "10", "discount": 0.5, "day": "2026-01-31"}
    broken = (
        {"day": "2026-02-31", "price": 100},
        {"day": None, "price": 0},
        {"price": 1, "discount": 0},
        {"price": None},
    )
    first, *others = read(spark, contract, {**good, "price": "2"}, *({**good, **change} for change in broken))
    assert first[REASONS] == []
    assert (first["net"], first["gross"], first["file"]) == (Decimal("1.00"), Decimal("1.20"), "FILE-0")
    assert (first["day"], first["rate"], first["size"]) == (date(2026, 1, 31), 50.0, 2_000_000_000)
    assert [row[REASONS] for row in others] == [
        ["day.type", "size.type"],
        ["day.required", "half_rate.expr", "rate.expr"],
        ["rate.check"],
        ["file.matches", "rate.required"],
    ]


def test_an_expression_cannot_use_one_below_it(spark):
    contract = silver({"a": {"type": "int", "expr": "b + 1"}, "b": {"type": "int", "expr": "1"}})
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        parsed(frame(spark), contract)


def test_a_rule_across_columns_rejects_what_is_false_or_fails_and_lets_the_unknown_pass(spark):
    contract = silver(
        {"x": {"type": "int", "from": "x", "check": "x >= 0"}, "y": {"type": "int", "from": "y"}},
        rules={"ordered": "x <= y", "share": "y / x < 10"},
        delete_when="gone = 'yes'",
    )
    payloads = [
        {"id": 1, "x": 1, "y": 2},
        {"id": 1, "x": 3, "y": 2},
        {"id": 1, "x": 3},
        {"id": 1, "x": 0, "y": 2},
        {"id": 1, "x": -1, "y": -20},
        {"id": 1, "x": 0, "y": -1, "gone": "yes"},
    ]
    assert reasons(spark, contract, *payloads) == [
        [],
        ["rule.ordered"],
        [],
        ["rule.share"],
        ["rule.ordered", "rule.share", "x.check"],
        [],
    ]


def test_a_delete_is_checked_on_its_key_and_its_time_only(spark):
    gone = {"op": "d", "ts_ms": NOON, "before": {"id": 7}, "after": None}
    deletes = [
        gone,
        {**gone, "before": {"id": "x"}},
        {**gone, "before": None, "ts_ms": None},
        {**gone, "after": {"id": 7, "quantity": -1, "status": "lost"}},
    ]
    found = read(spark, orders(), *deletes)
    assert [(row["order_id"], row[DELETED], row[REASONS]) for row in found] == [
        (7, True, []),
        (None, True, ["order_id.type"]),
        (None, True, ["order_id.required", "updated_at.required"]),
        (7, True, []),
    ]


def test_a_condition_for_deletes_reads_the_record_and_leaves_its_texts_alone(spark):
    cases = [
        ("op = 'd'", {"op": "d"}),
        ('`op` = "d"', {"op": "d"}),
        ("lower(op) IN ('d', 'x') AND NOT (op = 'c' OR op = 'u')", {"op": "X"}),
        ("source.table = 'gone and op'", {"source": {"table": "gone and op"}}),
        ("`source.my table` = 'x'", {"source": {"my table": "x"}}),
        ("`\"a.b\".ops[0]` = 'it\\'s op'", {"a.b": {"ops": ["it's op"]}}),
        ("`' OR true --` = 'x'", {"' OR true --": "x"}),
        ("gone = 'true' AND op IS NULL", {"gone": True}),
        ("n > 5 AND n < 1e3", {"n": 6}),
    ]
    other = {"id": 2, "op": "c", "n": 5}
    frames = [
        parsed(frame(spark, {"id": 1, **record}, other), silver({}, delete_when=condition)).select(
            F.lit(condition).alias("condition"), "id", DELETED
        )
        for condition, record in cases
    ]
    found = {(row["condition"], row["id"]): row[DELETED] for row in reduce(DataFrame.union, frames).collect()}
    assert found == {(condition, key): key == 1 for condition, _ in cases for key in (1, 2)}


def test_a_record_of_which_nobody_can_say_whether_it_is_a_delete_is_rejected(spark):
    contract = silver({}, delete_when="n > 5")
    found = read(spark, contract, {"id": 1, "n": 6}, {"id": 1, "n": "many"}, {"id": 1})
    assert [(row[DELETED], row[REASONS]) for row in found] == [
        (True, []),
        (False, ["record.delete_when"]),
        (False, []),
    ]


def test_without_a_condition_nothing_is_a_delete(spark):
    assert [row[DELETED] for row in read(spark, silver({}), {"id": 1, "op": "d"})] == [False]


def test_a_change_is_late_by_its_own_time_and_not_at_the_limit(spark):
    limit = NOON + 12 * 3_600_000 - 3 * 86_400_000
    old = "2020-01-01T00:00:00Z"
    payloads = [change(ts_ms=limit), change(ts_ms=limit - 1), change(ordered_at=old), change("d", ts_ms=limit - 1)]
    assert reasons(spark, orders(), *payloads) == [[], ["record.late"], [], ["record.late"]]


def test_each_row_has_its_own_limit_and_without_one_nothing_is_late(spark):
    rows = frame(spark, change(ts_ms=0), change(ts_ms=0))
    limit = F.when(F.col("_source_offset") == 0, F.lit(END))
    found = parsed(rows, orders(), limit).union(parsed(rows, orders())).collect()
    assert [row[REASONS] for row in found] == [["record.late"], [], [], []]
