"""The bounds of a column's values, as values of the column's type."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite

Value = int | float | Decimal | date
_EXAMPLES = {"date": "2026-01-31", "timestamp": "2026-01-31T12:00:00Z", "int": "5", "bigint": "5"}
_WHOLE = {"int": 2**31, "bigint": 2**63}


def read_bound(given: float | str, kind: str) -> Value:
    """A bound of a column of that type; a time without a zone is of UTC."""
    with suppress(ValueError, ArithmeticError):
        if kind == "date":
            return date.fromisoformat(str(given))
        if kind == "timestamp":
            moment = datetime.fromisoformat(str(given))
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return _number(Decimal(str(given)), kind)
    raise ValueError(f"'{given}' is no {kind}; write one, such as {_EXAMPLES.get(kind, '2.5')}")


def _number(value: Decimal, kind: str) -> Value:
    """A number of a type that holds it without rounding."""
    if not isfinite(value):
        raise ValueError(value)
    if kind == "double":
        return float(value)
    digits, scale = (int(part) for part in re.findall(r"\d+", kind)) if kind not in _WHOLE else (0, 0)
    beyond = _WHOLE.get(kind, 10 ** (digits - scale))
    if value.copy_abs() >= beyond or int(value.as_tuple().exponent) < -scale:
        raise ValueError(value)
    return int(value) if kind in _WHOLE else Decimal(f"{value:f}")
