"""Values as JSON holds them, exactly: what JSON has no form for is text."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import date
from decimal import Decimal
from math import isfinite, isnan
from typing import Any
from uuid import UUID

_DAYS_IN_400_YEARS = 146_097
_EPOCH = date(1970, 1, 1).toordinal()
_SECONDS_A_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def encoded(value: Any) -> str:
    """The value as JSON."""
    try:
        return _encode(value)
    except ValueError:
        return _encode(_finite(value))


def _other(value: Any) -> str:
    match value:
        case bytes():
            return b64encode(value).decode()
        case Decimal():
            return format(value, "f")
        case UUID():
            return str(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_other).encode


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {name: _finite(part) for name, part in value.items()}
        case list():
            return [_finite(part) for part in value]
        case float() if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def day(days: int) -> str:
    """A date by its distance from 1970; the calendar repeats every 400 years, which reaches past Python's years."""
    cycles, place = divmod(days + _EPOCH - 1, _DAYS_IN_400_YEARS)
    found = date.fromordinal(place + 1)
    year = found.year + 400 * cycles
    written = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{written}-{found.month:02d}-{found.day:02d}"


def clock(time: int, unit: str) -> str:
    """A time of the day by its distance from midnight."""
    seconds, part = divmod(time, _PER_SECOND[unit])
    nanoseconds = part * (10**9 // _PER_SECOND[unit])
    written = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if nanoseconds % 1000:
        return f"{written}.{nanoseconds:09d}"
    return f"{written}.{nanoseconds // 1000:06d}" if nanoseconds else written


def moment(time: int, unit: str, zone: str) -> str:
    """A date and time by its distance from 1970."""
    days, rest = divmod(time, _SECONDS_A_DAY * _PER_SECOND[unit])
    return f"{day(days)}T{clock(rest, unit)}{zone}"
