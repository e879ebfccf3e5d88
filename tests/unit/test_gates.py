"""Checks and their verdicts: a number, its bounds, and what is told."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from lakehouse.contracts.gates import KINDS, Gate
from lakehouse.gates.checks import Check, Found, Known, NullShare, Repeated

GATES = {
    "unique(a, b)": {"unique": ["a", "b"]},
    "row_count": {"row_count": {}},
    "nulls(a)": {"nulls": {"column": "a", "at_most": "1%"}},
    "accepted(a)": {"accepted": {"column": "a", "values": ["x"]}},
    "between(a)": {"between": {"column": "a", "lowest": 0}},
    "references(a)": {"references": {"column": "a", "to": "silver.b.c"}},
    "quantile(a, 50%)": {"quantile": {"column": "a"}},
    "fresh(silver.b)": {"fresh": {"input": "silver.b", "within": "1d"}},
    "sum(a)": {"sum": {"column": "a", "equals": "silver.b.c"}},
    "sql": {"sql": "SELECT 1"},
}


def check(**given) -> Check:
    return Check(gate="g", definition="d", measure=Known(value=0, says="so it is"), **given)


@pytest.mark.parametrize(("title", "given"), GATES.items(), ids=GATES)
def test_a_gate_is_called_by_its_kind_and_what_it_is_about(title, given):
    gate = Gate.model_validate(given)
    assert gate.title == title
    assert Gate.model_validate(gate.model_dump(mode="json")) == gate


def test_every_kind_is_told_here():
    assert [next(iter(given)) for given in GATES.values()] == list(KINDS)


def test_a_gate_that_asks_something_else_has_another_definition():
    one = Gate.model_validate({"accepted": {"column": "a", "values": ["x"]}})
    narrower = Gate.model_validate({"accepted": {"column": "a", "values": ["y"]}})
    renamed = Gate.model_validate({"accepted": {"column": "a", "values": ["x"]}, "name": "n", "severity": "warn"})
    assert one.definition == renamed.definition != narrower.definition


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "a gate has exactly one of unique, row_count"),
        ({"unique": ["a"], "sql": "SELECT 1"}, "a gate has exactly one of"),
        ({"row_count": {"at_least": 5, "of": "trailing_3_intervals"}}, "of goes with a share"),
        ({"row_count": {"of": "trailing_0_intervals"}}, "'trailing_0_intervals' is no history"),
        ({"quantile": {"column": "a", "of": "trailing_2_intervals"}}, "from 3 on"),
        ({"between": {"column": "a"}}, "give lowest, highest or both"),
        ({"references": {"column": "a", "to": "customers"}}, "'customers' is no column of a dataset"),
    ],
)
def test_a_gate_that_cannot_be_meant_is_refused(given, told):
    with pytest.raises(ValidationError, match=told):
        Gate.model_validate(given)


@pytest.mark.parametrize(
    ("bounds", "value", "verdict"),
    [
        ({"at_most": 0}, 0, "passed"),
        ({"at_most": 0}, 1, "failed"),
        ({"at_least": 90}, 90, "passed"),
        ({"at_least": 90}, 89.5, "failed"),
        ({"at_least": 1, "at_most": 2}, 2.5, "failed"),
        ({"at_most": 0, "severity": "warn"}, 1, "warned"),
        ({}, 7, "passed"),
        ({"at_most": 0}, None, "passed"),
        ({"at_least": 0}, math.nan, "failed"),
    ],
)
def test_a_number_outside_its_bounds_fails_or_warns(bounds, value, verdict):
    assert check(**bounds).judged(Found(gate="g", value=value)).verdict == verdict


def test_what_is_no_number_is_still_none_after_its_way_through_a_document():
    found = Found.model_validate_json(Found(gate="g", value=math.nan).model_dump_json())
    assert check(at_most=0).judged(found).verdict == "failed"


def test_a_verdict_tells_what_was_found_and_what_was_wanted():
    share = Check(gate="g", definition="d", measure=NullShare(column="region"), at_most=0.01)
    assert share.judged(Found(gate="g", value=0.0234)).found == "2.34% of the rows lack region, at most 0.01 wanted"
    none = Check(gate="g", definition="d", measure=Repeated(columns=("a",)), at_most=0)
    assert none.judged(Found(gate="g", value=3)).found == "3 values occur more than once"
    assert check(note="no bound yet").judged(Found(gate="g", value=1)).found == "so it is (no bound yet)"
