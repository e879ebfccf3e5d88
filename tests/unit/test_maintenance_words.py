"""A plan in words: what would be done and why, without a word that only Iceberg knows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from lakehouse.cli import build
from lakehouse.contracts import contract, contracts
from lakehouse.errors import LakehouseError
from lakehouse.health import health, inspected
from lakehouse.health.inspected import Inspected
from lakehouse.health.score import score
from lakehouse.ledger import database
from lakehouse.maintenance import seen
from lakehouse.maintenance.planned import Seen, plan
from lakehouse.maintenance.step import Plan
from lakehouse.maintenance.told import INTRODUCTION, lines, total
from tests.unit.iceberg_tables import MEGABYTE, append, days, file, made

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ORDERS = contract("silver.orders")


def test_a_plan_is_told_in_words_that_need_no_explanation(tmp_path):
    table = made(tmp_path)
    for day in days(3):
        append(table, [file(f"{day}-{n}", 2 * MEGABYTE, day) for n in range(8)])
    found = health(table)
    looked_at = Inspected("silver.orders", ORDERS, found, score(found, ORDERS.maintenance, ORDERS.retention, NOW))
    decided = plan(Seen("silver.orders", ORDERS, found, NOW, expirable=4, wanted={"write.x": "y"}))
    text = "\n".join(lines(looked_at, decided))
    assert "silver.orders: health " in text
    assert "2. Pack small files together." in text
    assert "Why: In ordered_at_day=2026-01-01 and 2 more partitions 24 of 24 files are smaller than" in text
    assert "How: Reads about 48 MB and writes it again as few large files. The rows stay the same." in text
    assert "Why: 4 old versions are past the 7d that the contract keeps." in text
    assert "4. Remove files that nobody uses." in text
    for word in ("manifest", "snapshot", "compact", "binpack", "orphan", "iceberg"):
        assert not re.search(word, INTRODUCTION + text, re.IGNORECASE), word
    assert total([decided]) == "4 steps on 1 table; about 48 MB would be read and written again."


def test_a_healthy_table_is_told_so(tmp_path):
    found = health(made(tmp_path))
    looked_at = Inspected("silver.orders", ORDERS, found, score(found, ORDERS.maintenance, ORDERS.retention, NOW))
    assert list(lines(looked_at, plan(Seen("silver.orders", ORDERS, found, NOW))))[1:] == ["  Nothing to do."]
    assert total([Plan(table="silver.orders")]) == "All tables are as they should be."
    assert total([]) == "There is no table yet."
    waiting = Plan(table="silver.orders", put_off=("a day is still being written",))
    assert total([waiting]) == "Nothing is to be done now; what has to wait is named above."


def test_a_long_sentence_is_told_in_lines_that_a_screen_holds(tmp_path):
    found = health(made(tmp_path))
    looked_at = Inspected("silver.orders", ORDERS, found, score(found, ORDERS.maintenance, ORDERS.retention, NOW))
    told = list(lines(looked_at, Plan(table="silver.orders", put_off=("somebody has yet to take them " * 9,))))
    assert len(told) > 3
    assert all(len(line) < 120 for line in told)


@pytest.fixture
def one_is_broken(monkeypatch):
    """One dataset cannot be looked at; the others need nothing, or are not there."""
    looked: list[str] = []

    def look(dataset: str) -> list[Any]:
        looked.append(dataset)
        if dataset == "silver.orders":
            raise OverflowError("date value out of range")
        return []

    monkeypatch.setattr(database, "now", lambda: datetime.now(UTC))
    monkeypatch.setattr(seen, "plans", lambda contract, *_, **__: look(contract.dataset))
    monkeypatch.setattr(inspected, "inspect_all", lambda asked, _: look(asked[0].dataset))
    return looked


@pytest.mark.parametrize("command", [["maintain", "--dry-run"], ["health"]])
def test_a_dataset_that_cannot_be_looked_at_keeps_no_other_from_its_turn(one_is_broken, command):
    failed = CliRunner().invoke(build(command), command)
    assert isinstance(failed.exception, LakehouseError)
    assert str(failed.exception) == "silver.orders failed: OverflowError: date value out of range"
    assert one_is_broken == [one.dataset for one in contracts()]
