"""Products: every day the whole catalogue as CSV; a product that is no longer sold is no longer in it."""

from __future__ import annotations

import csv
import io
from datetime import date

from lakehouse.sample.recipe import EPOCH, Recipe
from lakehouse.sample.shop import PRODUCTS, Product, product

COLUMNS = ("id", "name", "category", "price", "active")


def snapshot(day: date, recipe: Recipe) -> bytes:
    """The catalogue of a day."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    slots = range(recipe.count(PRODUCTS)) if day >= EPOCH else ()
    for item in sorted((product(slot, day, recipe) for slot in slots), key=lambda item: item.id):
        row = (item.id, item.name, item.category, _price(item, day, recipe), str(item.active).lower())
        writer.writerow(row)
        luck = recipe.random("broken", item.id, day)
        # A broken record comes besides the good one, as it does in the other datasets.
        if broken := recipe.struck("malformed", luck, (row[:2], (*row, "?"))):
            writer.writerow(broken)
    return text.getvalue().encode()


def _price(item: Product, day: date, recipe: Recipe) -> str:
    """The price as it is delivered."""
    luck = recipe.random("price", item.id, day)
    written = recipe.struck("currency", luck, [f"${item.cents / 100:,.2f}"])
    wrong = recipe.struck("invalid", luck, ("n/a", "-1.00"))
    return wrong or written or f"{item.cents / 100:.2f}"
