"""When a pipeline has a table maintained at once."""

from __future__ import annotations

import pytest

from lakehouse.contracts import contract
from lakehouse.ledger import health
from lakehouse.maintenance.critical import run_at_once

ORDERS = contract("silver.orders")


@pytest.mark.parametrize(
    ("files", "measured", "expected"),
    [
        (1_000, (0, 0), "critical__silver_orders__0"),  # nobody has looked at it
        (5_999, (7, 5_000), None),
        (6_000, (7, 5_000), "critical__silver_orders__7"),
        (6_500, (7, 5_000), "critical__silver_orders__7"),  # the same run, until it is looked at again
        (6_500, (8, 6_400), None),
    ],
)
def test_many_more_files_than_when_it_was_last_looked_at_ask_for_one_run(files, measured, expected, monkeypatch):
    monkeypatch.setattr(health, "newest_files", lambda _: measured)
    assert run_at_once(ORDERS, files) == expected


def test_a_table_with_few_files_costs_no_question(monkeypatch):
    def asked(_: str) -> None:
        raise AssertionError("the ledger was asked")

    monkeypatch.setattr(health, "newest_files", asked)
    assert run_at_once(ORDERS, 999) is None


def test_the_threshold_is_the_contracts_own(monkeypatch):
    monkeypatch.setattr(health, "newest_files", lambda _: (3, 10))
    kept = ORDERS.maintenance.model_copy(update={"critical_files": 20})
    small = ORDERS.model_copy(update={"maintenance": kept})
    assert run_at_once(small, 30) == "critical__silver_orders__3"
    assert run_at_once(small, 29) is None
