"""How a file is cut into records: the rows of bronze."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

# A field of CSV, in quotes or without, and what ends it.
FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|\Z)')
Fields = dict[str, Any]


class Record(NamedTuple):
    """A row of bronze; without fields it is malformed."""

    day: date
    source_file: str
    source_offset: int
    text: str
    fields: Fields | None


def records(day: date, source_file: str, data: bytes) -> list[Record]:
    """The records of a file, by what its name says that it is."""
    plain = gzip.decompress(data) if source_file.endswith(".gz") else data
    cut = csv_records if source_file.endswith(".csv") else json_lines
    return [Record(day, source_file, *found) for found in cut(plain)]


def json_lines(data: bytes) -> Iterator[tuple[int, str, Fields | None]]:
    """Every line that is not empty, with its number among all lines of the file."""
    for number, line in enumerate(data.split(b"\n")):
        if line.strip():
            text = line.removesuffix(b"\r").decode("utf-8", errors="backslashreplace")
            yield number, text, json_object(text)


def csv_records(data: bytes) -> Iterator[tuple[int, str, Fields | None]]:
    """Every record under the header, with its number; one with more or fewer fields than the header is malformed."""
    rows = csv_rows(data.decode("utf-8"))
    header = [str(name) for name in next(rows, [])]
    for number, row in enumerate(rows):
        fields = dict(zip(header, row, strict=True)) if len(row) == len(header) else None
        yield number, json.dumps(row), fields


def csv_rows(text: str) -> Iterator[list[str | None]]:
    """The fields of each row that is not empty; a field of nothing, without quotes, is null."""
    row: list[str | None] = []
    for field in FIELD.finditer(text):
        quoted, bare, end = field.groups()
        row.append(quoted.replace('""', '"') if quoted is not None else bare or None)
        if end != ",":
            if row != [None]:
                yield row
            row = []


def json_object(text: str) -> Fields | None:
    """A JSON object with its numbers as text, or None for anything else."""
    try:
        found = json.loads(
            text, parse_int=str, parse_float=number_text, parse_constant=refuse, object_pairs_hook=distinct
        )
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def number_text(written: str) -> str:
    """A number with a point or an exponent, without either where it is whole: 3.0 is 3."""
    return format(Decimal(written).normalize(), "f")


def refuse(word: str) -> Any:
    """NaN and Infinity, which Python reads and JSON does not know."""
    raise ValueError(word)


def distinct(pairs: list[tuple[str, Any]]) -> Fields:
    """An object, unless it says the same name twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice")
    return found
