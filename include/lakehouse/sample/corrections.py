"""Corrections: a file that its source delivers a second time, under the same key and with other records."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from datetime import date
from random import Random
from typing import Any

from lakehouse.sample.generator import File, folder_files
from lakehouse.sample.products import COLUMNS
from lakehouse.sample.recipe import Recipe

Record = dict[str, Any]
# Of so many records of a file one is removed, one is changed, and one is followed by a new one.
ONE_IN = 20
# Between the ids of a day's orders, or of a generation of customers or products, and those of the next.
FREE_IDS = {"orders": 5_000_000, "customers": 500_000, "products": 500_000}


def corrected(dataset: str, day: date, recipe: Recipe) -> File:
    """The second version of the first file of a dataset's day: some records removed, some changed, some new.

    Pure, as `generate` is. Broken records and deletes stay as they are, and so does the order of all others.
    """
    key, data = next(folder_files(dataset, day, recipe))
    luck = recipe.random("corrected", dataset, day)
    packed = key.endswith(".gz")
    lines = (gzip.decompress(data) if packed else data).splitlines()
    text = b"".join(line + b"\n" for line in _corrected(dataset, lines, luck))
    return key, gzip.compress(text, mtime=0) if packed else text


def _corrected(dataset: str, lines: list[bytes], luck: Random) -> Iterator[bytes]:
    """The lines of the second version."""
    records = {number: record for number, line in enumerate(lines) if (record := _read(dataset, line))}
    share = max(1, len(records) // ONE_IN)
    drawn = luck.sample(list(records), min(len(records), 3 * share))
    removed, changed, followed = set(drawn[:share]), set(drawn[share : 2 * share]), set(drawn[2 * share :])
    for number, line in enumerate(lines):
        if number in changed:
            yield _write(dataset, _change(dataset, records[number], luck))
        elif number not in removed:
            yield line
        if number in followed:
            yield _write(dataset, _new(dataset, records[number], luck))


def _change(dataset: str, record: Record, luck: Random) -> Record:
    """A record as it should have been."""
    price = luck.randrange(100, 100_000)
    if dataset == "orders":
        return _with_after(record, amount=price / 100)
    if dataset == "customers":
        return _with_after(record, name=f"{record['after']['name']} Corrected")
    return record | ({"price": f"{price / 100:.2f}"} if dataset == "products" else {"url": "/corrected"})


def _new(dataset: str, record: Record, luck: Random) -> Record:
    """A record that was forgotten: as another one, of an id that nobody has."""
    if dataset == "clicks":
        return record | {"event_id": f"{luck.getrandbits(64):016x}"}
    if dataset == "products":
        return record | {"id": int(record["id"]) + FREE_IDS[dataset]}
    return _with_after(record, id=record["after"]["id"] + FREE_IDS[dataset])


def _with_after(record: Record, **values: Any) -> Record:
    """A change event with other values in the image after it."""
    return record | {"after": record["after"] | values}


def _read(dataset: str, line: bytes) -> Record | None:
    """The record of a line, if it is one that can be corrected."""
    if dataset == "products":
        fields = next(csv.reader([line.decode()]), [])
        return dict(zip(COLUMNS, fields, strict=True)) if len(fields) == len(COLUMNS) and fields[0].isdigit() else None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("after", found) else None


def _write(dataset: str, record: Record) -> bytes:
    """The line of a record."""
    if dataset != "products":
        return json.dumps(record, separators=(",", ":")).encode()
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(record.values())
    return text.getvalue().encode()
