"""Customers: a change a week for each, from registration to deletion, in Debezium's envelope."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

from lakehouse.sample.events import Event, iso
from lakehouse.sample.recipe import DAY_MS, EPOCH, EPOCH_MS, Recipe, midnight_ms
from lakehouse.sample.shop import CUSTOMER_DAYS, CUSTOMERS, Tenant, customer, region

SEGMENTS = ("business", "consumer", "member", "trial")
# All 350 customers are seen within a week, so that a week of files holds everybody who orders.
DAYS_BETWEEN = 7
WRONG: tuple[tuple[str, Any], ...] = (
    ("segment", "??"),
    ("email", None),
    ("email", "nobody.example.com"),
    ("created_at", "2099-01-01T00:00:00Z"),
)


def histories(day: date, recipe: Recipe) -> Iterator[list[Event]]:
    """The changes of customers on a day, each a history of its own."""
    if day < EPOCH:
        return
    for slot in range(recipe.count(CUSTOMERS)):
        who = customer(slot, day)
        if who.age % DAYS_BETWEEN == 0 or who.age == CUSTOMER_DAYS - 1:
            yield [_change(who, day, recipe)]


def soil(event: Event, luck: Random, recipe: Recipe) -> dict[str, Any]:
    """The record as it is delivered."""
    wrong = recipe.struck("invalid", luck, WRONG)
    if event.record["after"] is None:
        return event.record
    after = dict(event.record["after"])
    if recipe.struck("formats", luck, [True]):
        after["email"] = f" {after['email'].title()} "
    if wrong:
        after.update([wrong])
    return event.record | {"after": after}


def _change(who: Tenant, day: date, recipe: Recipe) -> Event:
    """What changes for a customer on a day of change."""
    at, version = _moment(who, day, recipe), who.age // DAYS_BETWEEN
    state, last = _state(who, day, version, recipe), who.age == CUSTOMER_DAYS - 1
    before = state if last else _state(who, day, version - 1, recipe) if version else None
    record = {
        "before": before,
        "after": None if last else state,
        "op": "d" if last else "u" if version else "c",
        "ts_ms": at,
        "source": {"table": "customers", "lsn": (at - EPOCH_MS) * 1000 + who.id % 1000},
    }
    return Event(f"customer {who.id} {at}", at, record)


def _state(who: Tenant, day: date, version: int, recipe: Recipe) -> dict[str, Any]:
    """A customer's row in a version; segment and address take turns in changing."""
    return {
        "id": who.id,
        "name": f"Customer {who.id}",
        "email": f"customer{who.id}+{version // 2}@example.com",
        "region": region(who),
        "segment": SEGMENTS[(who.slot + (version + 1) // 2) % len(SEGMENTS)],
        "created_at": iso(_moment(who, day - timedelta(days=who.age), recipe)),
    }


def _moment(who: Tenant, day: date, recipe: Recipe) -> int:
    """When on a day a customer's change happens."""
    return midnight_ms(day) + recipe.random("customer", who.id, day).randrange(DAY_MS)
