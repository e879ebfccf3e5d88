"""Orders: each one's life as change events in Debezium's envelope, from its creation to at most four days later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from lakehouse.sample.events import Event, iso
from lakehouse.sample.recipe import EPOCH, EPOCH_MS, Recipe, day_number, day_number_of, midnight_ms
from lakehouse.sample.shop import CUSTOMERS, PRODUCTS, customer, product, region

PER_DAY = 500
# More than a day's orders at the largest scale; ids outgrow 32 bits, as real ones do.
ID_STEP = 10_000_000
MINUTE, HOUR = 60_000, 3_600_000
# What becomes of an order, and how many of a hundred go that way.
PATHS = {("paid", "shipped"): 72, ("paid",): 10, ("cancelled",): 8, ("paid", "cancelled"): 4, (): 6}
CORRECTED, DELETED = 0.05, 0.03
WRONG: tuple[tuple[str, Any], ...] = (
    ("quantity", 0),
    ("quantity", -1),
    ("status", "??"),
    ("customer_id", None),
    ("amount", "n/a"),
)
COUPONS = (None, "SAVE5", "SAVE10")


def histories(day: date, recipe: Recipe) -> Iterator[list[Event]]:
    """The lives of the orders created on a day."""
    if day < EPOCH:
        return
    # A few per cent up and down: a row count gate sees days that differ, and passes.
    swing = 0.97 + 0.06 * recipe.random("orders", day).random()
    for number in range(recipe.count(round(PER_DAY * swing))):
        yield _life(day, day_number(day) * ID_STEP + number + 1, recipe)


def soil(event: Event, luck: Random, recipe: Recipe) -> dict[str, Any]:
    """The record as it is delivered, with its cells dirtied; the image before the change stays clean."""
    if event.record["after"] is None:
        return event.record
    after = dict(event.record["after"])
    if recipe.struck("currency", luck, [True]):
        after["amount"] = f"${after['amount']:,.2f}"
    if recipe.struck("formats", luck, [True]):
        after["ordered_at"] = datetime.fromisoformat(after["ordered_at"]).astimezone(UTC).strftime("%d/%m/%Y %H:%M")
    if wrong := recipe.struck("invalid", luck, WRONG):
        after.update([wrong])
    if "drift" in recipe.dirt and day_number_of(event.at_ms) >= day_number(recipe.drift_from):
        after |= {"quantity": str(after["quantity"]), "coupon": luck.choice(COUPONS)}
    return event.record | {"after": after}


def _life(day: date, order: int, recipe: Recipe) -> list[Event]:
    """All changes of one order; each is later than the one before."""
    luck = recipe.random("order", order)
    # Busiest at six in the evening. Whole minutes, so that every time format tells the same time.
    ordered = midnight_ms(day) + int(luck.triangular(0, 24 * 60, 18 * 60)) * MINUTE
    at, state = ordered + luck.randrange(MINUTE), _placed(day, order, ordered, recipe, luck)
    life = [_change(at, "c", None, state)]
    for step in _steps(luck):
        at += luck.randrange(4 * HOUR, 60 * HOUR) if step == "shipped" else luck.randrange(MINUTE, 6 * HOUR)
        life.append(_change(at, "u", state, state := _next(state, step)))
    if luck.random() < DELETED:
        life.append(_change(at + luck.randrange(HOUR, 20 * HOUR), "d", state, None))
    return life


def _placed(day: date, order: int, ordered_ms: int, recipe: Recipe, luck: Random) -> dict[str, Any]:
    """The order as it was placed."""
    # Yesterday's customer: one who registered today may not have done so yet.
    buyer = customer(luck.randrange(recipe.count(CUSTOMERS)), max(EPOCH, day - timedelta(days=1)))
    item = product(luck.randrange(recipe.count(PRODUCTS)), day, recipe)
    quantity = luck.choice((1, 1, 1, 2, 2, 3, 4, 5))
    return {
        "id": order,
        "customer_id": buyer.id,
        "product_id": item.id,
        "category": item.category,
        "region": region(buyer),
        "quantity": quantity,
        "amount": item.cents * quantity / 100,
        "status": "new",
        "ordered_at": iso(ordered_ms),
    }


def _steps(luck: Random) -> tuple[str, ...]:
    """What happens to an order after it was placed."""
    (path,) = luck.choices(list(PATHS), list(PATHS.values()))
    return ("corrected", *path) if luck.random() < CORRECTED else path


def _next(state: dict[str, Any], step: str) -> dict[str, Any]:
    """The order after a step: a correction changes how many pieces it is for, all else is a new status."""
    if step != "corrected":
        return state | {"status": step}
    quantity = state["quantity"] % 5 + 1
    return state | {"quantity": quantity, "amount": round(state["amount"] * 100) // state["quantity"] * quantity / 100}


def _change(at: int, op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> Event:
    """One change in Debezium's envelope."""
    order = (after or before or {})["id"]
    # Log positions grow with time; the order's last digits tell changes of the same millisecond apart.
    lsn = (at - EPOCH_MS) * 1000 + order % 1000
    record = {"before": before, "after": after, "op": op, "ts_ms": at, "source": {"table": "orders", "lsn": lsn}}
    return Event(f"order {order} {at}", at, record)
