"""Avro's rows as values that `encoded` takes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from mmap import mmap
from typing import IO, Any, cast
from uuid import UUID

import fastavro
from fastavro.read import LOGICAL_READERS

from spark_jobs.readers.values import clock, day, moment

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def rows(file: mmap) -> Iterator[Any]:
    """Each row; raises where the file is no Avro or a damaged one."""
    yield from fastavro.reader(cast("IO[bytes]", file), handle_unicode_errors="surrogateescape")


def _decimal(data: bytes, schema: Any, *_: Any) -> Decimal:
    return _EXACT.scaleb(Decimal(int.from_bytes(data, signed=True)), -schema.get("scale", 0))


# fastavro's own end with the year 9999, round decimals to the schema's precision, and raise in the middle of a file.
LOGICAL_READERS.update(
    {
        "int-date": lambda number, *_: day(number),
        "int-time-millis": lambda number, *_: clock(number, "ms"),
        "long-time-micros": lambda number, *_: clock(number, "us"),
        "long-timestamp-millis": lambda number, *_: moment(number, "ms", "Z"),
        "long-timestamp-micros": lambda number, *_: moment(number, "us", "Z"),
        "long-timestamp-nanos": lambda number, *_: moment(number, "ns", "Z"),
        "long-local-timestamp-millis": lambda number, *_: moment(number, "ms", ""),
        "long-local-timestamp-micros": lambda number, *_: moment(number, "us", ""),
        "long-local-timestamp-nanos": lambda number, *_: moment(number, "ns", ""),
        "bytes-decimal": _decimal,
        "fixed-decimal": _decimal,
        "string-uuid": lambda text, *_: text,
        "fixed-uuid": lambda data, *_: UUID(bytes=data),
    }
)
