"""Paths, bounds, shares and SQL in contracts: what is read from their text, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pydantic import TypeAdapter

from lakehouse.contracts.bounds import read_bound
from lakehouse.contracts.paths import names, steps
from lakehouse.contracts.shares import Share, part_of, percent


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


@pytest.mark.parametrize("tenths", [*range(0, 1001, 10), 125, 333, 999])
def test_a_share_is_of_a_thousand_what_it_says(tenths):
    """29% of 100 are 29, though 0.29 * 100 is less, and 7% are 7, though 0.07 * 100 is more."""
    shares = TypeAdapter(Share)
    share = shares.validate_python(f"{tenths / 10:g}%")
    assert part_of(1000, share) == tenths
    assert part_of(100.0, share) * 10 == tenths
    assert tenths / 1000 == share, "as a count divided by another is"
    assert shares.validate_python(shares.dump_python(share)) == share


@pytest.mark.parametrize("text", ["100%", "20%", "0%", "12.5%", "0.00001%", "12.3456789%"])
def test_a_share_is_told_as_it_was_written(text):
    assert percent(TypeAdapter(Share).validate_python(text)) == text


@pytest.mark.parametrize("given", ["101%", "100.5%", "1e1%", "-1%", 0.2, "0.2"])
def test_what_is_no_percentage_is_no_share(given):
    with pytest.raises(ValueError, match="is no share; write a percentage, such as 20%"):
        TypeAdapter(Share).validate_python(given)
