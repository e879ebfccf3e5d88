"""The landing files of a day."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Iterator
from datetime import date, timedelta

from lakehouse.sample import clicks, customers, orders, products
from lakehouse.sample.events import lines
from lakehouse.sample.recipe import DRIFT_FROM, Recipe, day_number

MARKER = "_SUCCESS"
File = tuple[str, bytes]


def generate(
    day: date,
    *,
    scale: float = 1.0,
    seed: int = 7,
    dirt: Collection[str] | None = None,
    drift_from: date = DRIFT_FROM,
) -> Iterator[File]:
    """A day's landing files as (key, bytes), each folder's empty marker last.

    Pure: the same arguments give the same bytes, whatever other days are asked for. Dirt None is DEFAULT_DIRT, and ()
    is none; the records themselves do not depend on it.
    """
    recipe = Recipe.of(scale, seed, dirt, drift_from)
    for dataset in DATASETS:
        yield from folder_files(dataset, day, recipe)


def folder(dataset: str, day: date) -> str:
    """Where a dataset's files of a day go, with a slash at the end."""
    return f"{dataset}/{day}/"


def folder_files(dataset: str, day: date, recipe: Recipe) -> Iterator[File]:
    """One dataset's files of a day, its marker last."""
    for name, data in (*DATASETS[dataset](day, recipe), *_redelivered(dataset, day, recipe)):
        yield folder(dataset, day) + name, data
    yield folder(dataset, day) + MARKER, b""


def _redelivered(dataset: str, day: date, recipe: Recipe) -> Iterator[File]:
    """A file of the day before once more, under another name, if that dirt is asked for."""
    # A catalogue is the whole truth of its day: the day before's would be another truth, not the same file again.
    if "redelivered" in recipe.dirt and dataset != "products":
        before = list(DATASETS[dataset](day - timedelta(days=1), recipe))
        name, data = recipe.random("redelivered", dataset, day).choice(before)
        yield f"again-{name}", data


def _orders(day: date, recipe: Recipe) -> Iterator[File]:
    found = lines(day, recipe, orders.histories, orders.soil)
    # By the day alone: a delivery that was cut short and is repeated at another scale leaves no part behind.
    parts = 2 + day_number(day) % 2
    size = -(-len(found) // parts)
    for part in range(parts):
        yield f"part-{part:04}.jsonl", _text(found[part * size : (part + 1) * size])


def _customers(day: date, recipe: Recipe) -> Iterator[File]:
    yield "part-0000.jsonl", _text(lines(day, recipe, customers.histories, customers.soil))


def _products(day: date, recipe: Recipe) -> Iterator[File]:
    yield "products.csv", products.snapshot(day, recipe)


def _clicks(day: date, recipe: Recipe) -> Iterator[File]:
    # No time stamp in the header: the same day gives the same bytes.
    yield "part-0000.jsonl.gz", gzip.compress(_text(lines(day, recipe, clicks.histories, clicks.soil)), mtime=0)


def _text(found: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in found)


DATASETS: dict[str, Callable[[date, Recipe], Iterator[File]]] = {
    "orders": _orders,
    "customers": _customers,
    "products": _products,
    "clicks": _clicks,
}
