"""Arrow arrays as values that `encoded` takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.readers.record import distinct
from spark_jobs.readers.values import clock, day, encoded, moment


def values(array: pa.Array) -> list[Any]:
    """The array's values, of whatever type."""
    read = next((way for holds, way in _WAYS if holds(array.type)), _plain)
    return read(array)


def _structs(array: pa.StructArray) -> list[dict[str, Any] | None]:
    names = distinct(field.name for field in array.type)
    parts = [values(part) for part in array.flatten()]
    valid = array.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if there else None for there, *row in zip(valid, *parts, strict=True)]


def _maps(array: pa.MapArray) -> list[dict[str, Any] | None]:
    entry = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
    return [None if entries is None else _object(entries) for entries in _lists(array.cast(pa.list_(entry)))]


def _object(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """A map's entries as an object: JSON's keys are texts, and there is one of each."""
    keys = distinct(_key(entry["key"]) for entry in entries)
    return {key: entry["value"] for key, entry in zip(keys, entries, strict=True)}


def _key(key: Any) -> str:
    return key if isinstance(key, str) else encoded(key).strip('"')


def _lists(array: pa.ListArray) -> list[list[Any] | None]:
    items = iter(values(array.flatten()))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else list(islice(items, length)) for length in lengths]


def _times(array: pa.Array) -> list[Any]:
    """Dates and times as text, from the numbers that they are kept as: Python's own end with the year 9999."""
    numbers = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()
    write = _writer(array.type)
    return [None if number is None else write(number) for number in numbers]


def _writer(kind: pa.DataType) -> Callable[[int], Any]:
    if pa.types.is_date32(kind):
        return day
    if pa.types.is_time(kind):
        return partial(clock, unit=kind.unit)
    if pa.types.is_timestamp(kind):
        return partial(moment, unit=kind.unit, zone="Z" if kind.tz else "")
    return int  # a duration


def _plain(array: pa.Array) -> list[Any]:
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        texts = array.cast(pa.large_binary()).to_pylist()
        return [text if text is None else text.decode(errors="surrogateescape") for text in texts]


def _is_other_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.UuidType)


_WAYS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Any]]], ...] = (
    (_is_other_extension, lambda array: values(array.storage)),
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
    (pa.types.is_nested, _lists),
    (pa.types.is_temporal, _times),
)
