"""Paths, bounds and SQL in contracts: what is read from their text, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from lakehouse.contracts.bounds import read_bound
from lakehouse.contracts.paths import names, steps


@pytest.mark.parametrize("path", ["", ".a", "a.", '"a', '"a"b', "[0]", "a[b]", "a[-1]", "a[9999999999]", "a[0]b"])
def test_a_path_that_means_nothing_is_refused(path):
    with pytest.raises(ValueError, match="is no path"):
        steps(path)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("int", ["1.0", 2**31, "x", float("nan"), float("inf"), "1e999999999"]),
        ("bigint", [2**63, 0.5]),
        ("double", [float("nan"), "-Infinity", "1e400"]),
        ("decimal(38,0)", ["1" * 39, "0.1"]),
        ("date", ["2026-02-31", "2026-01-01T00:00:00", 2026]),
        ("timestamp", ["2026-13-01", "12:00", 5]),
    ],
)
def test_a_bound_that_its_column_cannot_hold_is_refused(kind, bad):
    for bound in bad:
        with pytest.raises(ValueError, match="; write one, such as"):
            read_bound(bound, kind)


@pytest.mark.parametrize(
    ("kind", "given", "bound"),
    [
        ("bigint", "1e3", 1000),
        ("double", 5, 5.0),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("timestamp", "2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("timestamp", "2026-01-01T02:00:00+02:00", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_bound_is_a_value_of_its_column(kind, given, bound):
    assert read_bound(given, kind) == bound


def test_names_in_sql_are_told_from_texts_numbers_and_functions():
    sql = """lower(Op) = 'a b' AND n > 1e5 OR `x y` IN ("c", r'\\') AND t.d IS NOT NULL"""
    assert names(sql) == ["Op", "n", "x y", "t.d"]
