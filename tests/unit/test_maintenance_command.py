"""`lakehouse maintain`: what it hands on, and what it says to programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from lakehouse.cli import build
from lakehouse.contracts import contract
from lakehouse.health import health
from lakehouse.health.inspected import Inspected
from lakehouse.health.score import score
from lakehouse.ledger import database, maintenance_turns
from lakehouse.maintenance import carried_out, seen
from lakehouse.maintenance.step import Plan, Step
from lakehouse.settings import settings

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ORDERS = contract("silver.orders")
STEP = Step(table="silver.orders", operation="set_properties", reason="a test", does="nothing")
PLAN = Plan(table="silver.orders", steps=(STEP,), put_off=("a day is still being written",))


@pytest.fixture(autouse=True)
def looked_at(table, monkeypatch) -> None:
    found = health(table)
    one = Inspected("silver.orders", ORDERS, found, score(found, ORDERS.maintenance, ORDERS.retention, NOW))
    monkeypatch.setattr(database, "now", lambda: NOW)
    monkeypatch.setattr(seen, "plans", lambda *_, **__: [(one, PLAN)])
    monkeypatch.setattr(maintenance_turns, "begin", lambda _: None)
    monkeypatch.setattr(maintenance_turns, "end", lambda *_: None)


def said(*options: str) -> str:
    command = ["maintain", "silver.orders", *options]
    done = CliRunner().invoke(build(command), command, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_programs_are_told_what_is_put_off_and_why_too():
    assert [Plan.model_validate(one) for one in json.loads(said("--dry-run", "--json"))] == [PLAN]
    assert "Not now: a day is still being written." in said("--dry-run")


def test_between_two_steps_the_command_leaves_the_lease_free_as_long_as_the_dag(monkeypatch):
    given: list[Any] = []
    monkeypatch.setenv("LAKEHOUSE_MAINTENANCE_PAUSE_SECONDS", "7.5")
    settings.cache_clear()
    monkeypatch.setattr(carried_out, "carry_out", lambda *asked, **_: given.append(asked[4]) or iter(["done"]))
    assert "done" in said()
    assert given == [7.5]


def test_a_dataset_that_is_being_written_is_put_off(monkeypatch):
    def busy(*_: object, **__: object) -> None:
        raise carried_out.Busy("silver.orders is being written by a run", 0)

    monkeypatch.setattr(carried_out, "carry_out", busy)
    assert "put off: silver.orders is being written by a run" in said()
