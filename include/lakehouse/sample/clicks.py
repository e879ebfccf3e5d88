"""Clicks: page views in bursts, as a visitor makes them, with nothing that says which belong together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

from lakehouse.sample.events import Event, iso
from lakehouse.sample.recipe import DAY_MS, EPOCH, Recipe, day_number_of, midnight_ms
from lakehouse.sample.shop import CATEGORIES, CUSTOMERS, PRODUCT_DAYS, PRODUCTS, customer, tenant

VISITS_PER_DAY = 500
MAX_VIEWS = 7
WRONG: tuple[tuple[str, Any], ...] = (("user_id", None), ("at", "n/a"))


def histories(day: date, recipe: Recipe) -> Iterator[list[Event]]:
    """The visits begun on a day."""
    if day < EPOCH:
        return
    for number in range(recipe.count(VISITS_PER_DAY)):
        yield _visit(day, recipe, recipe.random("visit", day, number))


def soil(event: Event, luck: Random, recipe: Recipe) -> dict[str, Any]:
    """The record as it is delivered. Its page is drawn only here: most visits are looked at for another day's files."""
    wrong = recipe.struck("invalid", luck, WRONG)
    record = event.record | {"url": _url(event, recipe, luck), "at": iso(event.at_ms, "milliseconds")}
    return record | dict([wrong]) if wrong else record


def _visit(day: date, recipe: Recipe, luck: Random) -> list[Event]:
    """One visitor's page views, seconds to minutes apart."""
    user = customer(luck.randrange(recipe.count(CUSTOMERS)), day).id
    at, views = midnight_ms(day) + luck.randrange(DAY_MS), []
    for _ in range(luck.randint(1, MAX_VIEWS)):
        name = f"{luck.getrandbits(64):016x}"
        views.append(Event(name, at, {"event_id": name, "user_id": user}))
        at += luck.randrange(2_000, 400_000)
    return views


def _url(event: Event, recipe: Recipe, luck: Random) -> str:
    """A page of the shop."""
    day = EPOCH + timedelta(days=day_number_of(event.at_ms))
    item = tenant(luck.randrange(recipe.count(PRODUCTS)), day, PRODUCT_DAYS).id
    return luck.choice(("/", "/cart", f"/category/{luck.choice(CATEGORIES)}", f"/product/{item}", f"/product/{item}"))
