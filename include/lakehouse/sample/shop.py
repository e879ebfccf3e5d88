"""Who and what the shop consists of on a day: its customers and its products.

Both are kept in slots. A slot is always taken; whoever holds it leaves after a fixed number of days and a successor
with a new id moves in. So the shop keeps its size, everything about a day follows from its number, and a customer or a
product comes, changes and goes within weeks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from lakehouse.sample.recipe import Recipe, day_number

CATEGORIES = ("books", "garden", "grocery", "sports", "tools", "toys")
REGIONS = ("central", "east", "north", "south", "west")
CUSTOMERS, CUSTOMER_DAYS = 350, 84
PRODUCTS, PRODUCT_DAYS = 120, 60
# More than there are slots at the largest scale, so that ids never meet.
ID_STEP = 1_000_000


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who holds a slot on a day, and for how many days already."""

    id: int
    slot: int
    generation: int
    age: int


@dataclass(frozen=True, slots=True)
class Product:
    """A product as it is offered on one day."""

    id: int
    name: str
    category: str
    cents: int
    active: bool


def tenant(slot: int, day: date, days: int) -> Tenant:
    """The holder of a slot on a day, where a tenancy takes that many days; successors are spread over the calendar."""
    generation, age = divmod(day_number(day) + slot * 37 % days + days, days)
    return Tenant(generation * ID_STEP + slot + 1, slot, generation, age)


def customer(slot: int, day: date) -> Tenant:
    """The customer in a slot on a day."""
    return tenant(slot, day, CUSTOMER_DAYS)


def region(who: Tenant) -> str:
    """Where a customer lives; customers do not move."""
    return REGIONS[(who.slot * 7 + who.generation) % len(REGIONS)]


@lru_cache(maxsize=4096)
def product(slot: int, day: date, recipe: Recipe) -> Product:
    """The product in a slot on a day: its price moves by the week, and it is not active in its last five days."""
    who = tenant(slot, day, PRODUCT_DAYS)
    luck = recipe.random("product", who.id)
    base = luck.randrange(199, 2000) * luck.choice((1, 4, 15, 60))
    cents = base * (100 + who.age // 7 % 3 * 5) // 100
    category = CATEGORIES[slot % len(CATEGORIES)]
    return Product(who.id, f"Product {who.id}", category, cents, who.age < PRODUCT_DAYS - 5)
