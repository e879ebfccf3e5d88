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
    VoidTransform,
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
    found = list(_conditions(spec, schema, values))
    conditions = [condition for condition, _ in found if condition]
    ends = [end for _, end in found if end]
    name = spec.partition_to_path(Record(*values), schema)
    return Described(name, " AND ".join(conditions) or None, ends[0] if ends else None)


def _conditions(
    spec: PartitionSpec, schema: Schema, values: Sequence[Any]
) -> Iterator[tuple[str | None, datetime | None]]:
    for field, value in zip(spec.fields, values, strict=True):
        column = schema.find_column_name(field.source_id)
        if column is None or isinstance(field.transform, VoidTransform):  # nobody can ask for it any more
            yield None, None
        elif value is None:
            yield f"{quoted(column)} IS NULL", None
        else:
            yield _condition(field, schema.find_type(field.source_id), quoted(column), value)


def _condition(field: PartitionField, kind: IcebergType, column: str, value: Any) -> tuple[str | None, datetime | None]:
    transform = field.transform
    if isinstance(transform, TimeTransform):
        first, end = _span(transform, value)
        return f"{column} >= {_time(kind, first)} AND {column} < {_time(kind, end)}", end
    if not isinstance(transform, IdentityTransform):  # a bucket: no condition on the column picks it alone
        return None, None
    if isinstance(kind, DateType):
        first = EPOCH + timedelta(days=_days(value))
        return f"{column} = {_time(kind, first)}", first + timedelta(days=1)
    if isinstance(kind, _TIMES):
        first = EPOCH + timedelta(microseconds=value)
        return f"{column} = {_time(kind, first)}", first + timedelta(microseconds=1)
    return _equals(kind, column, value), None


def _equals(kind: IcebergType, column: str, value: Any) -> str | None:
    if isinstance(kind, StringType):
        text = str(value).replace("\\", "\\\\").replace("'", "\\'")
        return f"{column} = '{text}'"
    if isinstance(kind, BooleanType):
        return column if value else f"NOT {column}"
    return f"{column} = {value}" if isinstance(kind, IntegerType | LongType) else None


def _days(value: Any) -> int:
    return (value - EPOCH.date()).days if isinstance(value, date) else int(value)


def _span(transform: TimeTransform[Any], value: Any) -> tuple[datetime, datetime]:
    """The time that a partition of years, months, days or hours since 1970 stands for."""
    if isinstance(transform, YearTransform):
        return tuple(datetime(1970 + value + more, 1, 1, tzinfo=UTC) for more in (0, 1))  # type: ignore[return-value]
    if isinstance(transform, MonthTransform):
        months = [value, value + 1]
        return tuple(datetime(1970 + m // 12, m % 12 + 1, 1, tzinfo=UTC) for m in months)  # type: ignore[return-value]
    unit = timedelta(hours=1) if isinstance(transform, HourTransform) else timedelta(days=1)
    count = _days(value) if isinstance(transform, DayTransform) else int(value)
    return EPOCH + count * unit, EPOCH + (count + 1) * unit


def _time(kind: IcebergType, moment: datetime) -> str:
    """A moment as an SQL literal of the column's type; sessions count in UTC."""
    if isinstance(kind, DateType):
        return f"DATE '{moment:%Y-%m-%d}'"
    return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}{f'.{moment:%f}' if moment.microsecond else ''}'"
