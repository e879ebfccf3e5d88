"""What a partition is called, which rows are in it, and when its time is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TimeTransform,
    Transform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from lakehouse.naming import quoted

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = (TimestampType, TimestamptzType)
# Values of these types can be named in SQL as what they are.
_NAMED = (DateType, *_TIMES, StringType, BooleanType, IntegerType, LongType)


@dataclass(frozen=True)
class Described:
    """A partition's name, the SQL condition that picks it, and the end of its time; None where there is none."""

    name: str
    where: str | None
    ends: datetime | None


def described(spec: PartitionSpec, schema: Schema, values: Sequence[Any]) -> Described:
    """Say of a partition what people and SQL need to know."""
    if not spec.fields:
        return Described("", None, None)
    name = _name(spec, schema, values)
    try:
        found = list(_conditions(spec, schema, values))
    except (OverflowError, ValueError):  # of the year 10000 or later: nobody can ask for it in Python's words
        return Described(name, None, None)
    conditions = [condition for condition, _ in found if condition]
    ends = [end for _, end in found if end]
    return Described(name, " AND ".join(conditions) or None, ends[0] if ends else None)


def _name(spec: PartitionSpec, schema: Schema, values: Sequence[Any]) -> str:
    try:
        return spec.partition_to_path(Record(*values), schema)
    except (OverflowError, ValueError):  # a time that Python has no name for
        return "/".join(f"{field.name}={value}" for field, value in zip(spec.fields, values, strict=True))


def _conditions(
    spec: PartitionSpec, schema: Schema, values: Sequence[Any]
) -> Iterator[tuple[str | None, datetime | None]]:
    for field, value in zip(spec.fields, values, strict=True):
        column = schema.find_column_name(field.source_id)
        if column is None or not _has_conditions(field.transform, schema.find_type(field.source_id)):
            yield None, None  # nobody can ask for it, or not any more
        elif value is None:
            yield f"{quoted(column)} IS NULL", None
        else:
            yield _condition(field, schema.find_type(field.source_id), quoted(column), value)


def _has_conditions(transform: Transform[Any, Any], kind: IcebergType) -> bool:
    """Whether a condition on the column picks each value alone, as none does a bucket.

    Where one picks NULL and none the others, these could not be rewritten without it.
    """
    by_value = isinstance(transform, IdentityTransform) and isinstance(kind, _NAMED)
    return by_value or isinstance(transform, TimeTransform)


def _condition(field: PartitionField, kind: IcebergType, column: str, value: Any) -> tuple[str, datetime | None]:
    transform = field.transform
    if isinstance(transform, TimeTransform):
        first, end = _start(transform, value), _end(transform, value)
        upper = f" AND {column} < {_time(kind, end)}" if end else ""
        return f"{column} >= {_time(kind, first)}{upper}", end
    if isinstance(kind, DateType):
        first = EPOCH + timedelta(days=_days(value))
        return f"{column} = {_time(kind, first)}", _after(first, timedelta(days=1))
    if isinstance(kind, _TIMES):
        first = EPOCH + timedelta(microseconds=value)
        return f"{column} = {_time(kind, first)}", _after(first, timedelta(microseconds=1))
    return _equals(kind, column, value), None


def _equals(kind: IcebergType, column: str, value: Any) -> str:
    if isinstance(kind, StringType):
        text = str(value).replace("\\", "\\\\").replace("'", "\\'")
        return f"{column} = '{text}'"
    if isinstance(kind, BooleanType):
        return column if value else f"NOT {column}"
    return f"{column} = {value}"


def _days(value: Any) -> int:
    return (value - EPOCH.date()).days if isinstance(value, date) else int(value)


def _start(transform: TimeTransform[Any], value: Any) -> datetime:
    """When the time begins that a partition of years, months, days or hours since 1970 stands for."""
    if isinstance(transform, YearTransform):
        return datetime(1970 + value, 1, 1, tzinfo=UTC)
    if isinstance(transform, MonthTransform):
        return datetime(1970 + value // 12, value % 12 + 1, 1, tzinfo=UTC)
    if isinstance(transform, HourTransform):
        return EPOCH + int(value) * timedelta(hours=1)
    return EPOCH + _days(value) * timedelta(days=1)


def _end(transform: TimeTransform[Any], value: Any) -> datetime | None:
    """When it ends; None for the last that there is, as 9999-12-31 is, which means: for ever."""
    following = _days(value) + 1 if isinstance(transform, DayTransform) else value + 1
    try:
        return _start(transform, following)
    except (OverflowError, ValueError):
        return None


def _after(first: datetime, span: timedelta) -> datetime | None:
    try:
        return first + span
    except OverflowError:
        return None


def _time(kind: IcebergType, moment: datetime) -> str:
    """A moment as an SQL literal of the column's type; sessions count in UTC.

    By isoformat, as Linux writes the year 1 with one digit, which is no literal.
    """
    if isinstance(kind, DateType):
        return f"DATE '{moment.date().isoformat()}'"
    return f"TIMESTAMP '{moment.replace(tzinfo=None).isoformat(' ')}'"
