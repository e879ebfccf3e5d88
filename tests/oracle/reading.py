"""How one line of an orders file is read: its row of silver, or the rules that it breaks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

LATE_DATA = timedelta(days=3)
STATUSES = {"new", "paid", "shipped", "cancelled"}
CENT = Decimal("0.01")


def judge(day: date, text: str) -> tuple[bool, dict[str, Any], set[str]]:
    """Whether a line that arrived on a day is a delete, its row of silver, and the reasons for which it is rejected."""
    record = parse(text)
    if record is None:
        return False, {}, {"record.malformed"}
    delete = record.get("op") == "d"
    after, before = inside(record, "after"), inside(record, "before")
    order_id = before.get("id") if after.get("id") is None else after["id"]
    given = {"order_id": order_id, **{name: after.get(name) for name in FROM_AFTER}, "updated_at": record.get("ts_ms")}
    row: dict[str, Any] = {}
    reasons: set[str] = set()
    for name in ("order_id", "updated_at") if delete else COLUMNS:
        row[name], reason = COLUMNS[name].read(given[name])
        reasons |= {f"{name}.{reason}"} if reason else set()
    updated_at = row["updated_at"]
    if updated_at and midnight_after(day) - updated_at > LATE_DATA:
        reasons.add("record.late")
    return delete, row, reasons


def parse(text: str) -> dict[str, Any] | None:
    """A JSON object with its numbers as they are written, or None for anything else."""
    try:
        found = json.loads(text, parse_int=str, parse_float=str, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def refuse(word: str) -> Any:
    """NaN and Infinity, which Python reads and JSON does not know."""
    raise ValueError(word)


def inside(record: dict[str, Any], name: str) -> dict[str, Any]:
    """An object within an object; nothing where there is none."""
    found = record.get(name)
    return found if isinstance(found, dict) else {}


def midnight_after(day: date) -> datetime:
    """The end of a day's interval."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)


@dataclass(frozen=True)
class Column:
    """How a column is cast, and its rules; a cast raises ValueError or ArithmeticError when it cannot."""

    cast: Callable[[str], Any]
    required: bool = False
    accepted: frozenset[str] | None = None
    check: Callable[[Any], bool] = lambda value: True

    def read(self, given: Any) -> tuple[Any, str | None]:
        """The value, and the rule it breaks if it breaks one."""
        if given is None:
            return None, "required" if self.required else None
        try:
            value = self.cast(written(given))
        except (ValueError, ArithmeticError):
            return None, "type"
        if self.accepted and value not in self.accepted:
            return value, "accepted"
        return value, None if self.check(value) else "check"


def written(given: Any) -> str:
    """A JSON value as text."""
    return given if isinstance(given, str) else json.dumps(given, separators=(",", ":"))


def integer(bits: int) -> Callable[[str], int]:
    """The cast to a whole number of so many bits."""

    def cast(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
            raise ValueError(text)
        value = int(text)
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise OverflowError(text)
        return value

    return cast


def money(text: str) -> Decimal:
    """decimal(12,2) once $, commas and spaces are gone."""
    bare = re.sub(r"[$,\s]", "", text)
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", bare):
        raise ValueError(text)
    value = Decimal(bare).quantize(CENT, ROUND_HALF_UP)
    if abs(value) >= 10**10:
        raise OverflowError(text)
    return value


def moment(text: str) -> datetime:
    """yyyy-MM-ddTHH:mm:ss with a zone, or dd/MM/yyyy HH:mm in UTC."""
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d(:?\d\d)?)", text):
        return datetime.fromisoformat(text).astimezone(UTC)
    if re.fullmatch(r"\d\d/\d\d/\d{4} \d\d:\d\d", text):
        return datetime.strptime(text, "%d/%m/%Y %H:%M").replace(tzinfo=UTC)
    raise ValueError(text)


def epoch_ms(text: str) -> datetime:
    """Milliseconds since 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=integer(64)(text))


COLUMNS = {
    "order_id": Column(integer(64), required=True),
    "customer_id": Column(integer(64), required=True),
    "product_id": Column(integer(64), required=True),
    "category": Column(str),
    "region": Column(str),
    "quantity": Column(integer(32), check=lambda value: value > 0),
    "amount": Column(money, check=lambda value: value >= 0),
    "status": Column(str, required=True, accepted=frozenset(STATUSES)),
    "ordered_at": Column(moment, required=True),
    "updated_at": Column(epoch_ms, required=True),
}
FROM_AFTER = [name for name in COLUMNS if name not in {"order_id", "updated_at"}]
