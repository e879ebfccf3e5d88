"""How a record is read: its row of silver, or the rules that it breaks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from .records import Fields, Record

Row = dict[str, Any]
Rules = Mapping[str, Callable[[Any], bool]]


class Rejected(NamedTuple):
    """A row of quarantine."""

    day: date
    source_file: str
    source_offset: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Judged:
    """A record with its row of silver, whether it is a delete, and the rules that it breaks."""

    record: Record
    row: Row
    delete: bool = False
    reasons: tuple[str, ...] = ()

    @property
    def rejected(self) -> Rejected:
        """Its row of quarantine."""
        return Rejected(self.record.day, self.record.source_file, self.record.source_offset, self.reasons)


@dataclass(frozen=True)
class Column:
    """Where a value comes from, how its text is cleaned and cast, and its rules.

    A cast raises ValueError or ArithmeticError when it cannot. A derived column is made from the ones above it.
    """

    paths: tuple[str, ...] = ()
    cast: Callable[[str], Any] = str
    clean: Callable[[str], str] = str
    required: bool = False
    rules: Rules = field(default_factory=dict)
    derived: Callable[[Row], Any] | None = None

    def read(self, fields: Fields, row: Row) -> tuple[Any, set[str]]:
        """The value, and the rules it breaks."""
        if self.derived:
            return self.derived(row), set()
        given = next((found for path in self.paths if (found := at(fields, path)) is not None), None)
        if given is None:
            return None, {"required"} if self.required else set()
        try:
            value = self.cast(self.clean(written(given)))
        except (ValueError, ArithmeticError):
            return None, {"type"}
        return value, {name for name, keeps in self.rules.items() if not keeps(value)}


@dataclass(frozen=True)
class Shape:
    """What a contract of silver says of its records.

    `rules` are those across columns. A delete is read in the columns of `identity` only. `late` is how old a change may
    be at its interval's end, by the column `time`.
    """

    columns: Mapping[str, Column]
    rules: Mapping[str, Callable[[Row], bool]] = field(default_factory=dict)
    identity: tuple[str, ...] = ()
    deletes: Callable[[Fields], bool] = lambda fields: False
    time: str = ""
    late: timedelta | None = None


def judge(shape: Shape, record: Record, *, corrected: bool = False) -> Judged:
    """A record against its contract; a corrected file is never late."""
    if record.fields is None:
        return Judged(record, {}, reasons=("record.malformed",))
    delete = shape.deletes(record.fields)
    row: Row = {}
    broken: set[str] = set()
    for name in shape.identity if delete else shape.columns:
        row[name], rules = shape.columns[name].read(record.fields, row)
        broken |= {f"{name}.{rule}" for rule in rules}
    if not delete:
        broken |= {f"rule.{name}" for name, keeps in shape.rules.items() if not keeps(row)}
    if not corrected and is_late(shape, record, row):
        broken.add("record.late")
    return Judged(record, row, delete, tuple(sorted(broken)))


def is_late(shape: Shape, record: Record, row: Row) -> bool:
    """Whether a change is older than allowed at the end of the interval in which it came."""
    at_time = row.get(shape.time)
    if shape.late is None or at_time is None:
        return False
    start = datetime(record.day.year, record.day.month, record.day.day, tzinfo=UTC)
    return bool(at_time < start + timedelta(days=1) - shape.late)


def at(fields: Fields, path: str) -> Any:
    """The value at a.b.c; None where there is none."""
    found: Any = fields
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def written(given: Any) -> str:
    """A JSON value as text."""
    return given if isinstance(given, str) else json.dumps(given, separators=(",", ":"))


# Cleaners


def currency(text: str) -> str:
    """An amount such as $1,234.50 without its sign and its commas; all else stays as it is."""
    amount = re.fullmatch(r"\s*([+-]?)\s*[$€£]?\s*([+-]?(?:\d{1,3}(?:,\d{3})+|\d*)(?:\.\d*)?)\s*[$€£]?\s*", text)
    return "".join(amount.groups()).replace(",", "") if amount else text


def trimmed(text: str) -> str:
    """Without blanks around it."""
    return text.strip(" ")


# Casts


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


def money(digits: int) -> Callable[[str], Decimal]:
    """The cast to decimal(digits, 2), which never rounds."""

    def cast(text: str) -> Decimal:
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text.strip()):
            raise ValueError(text)
        value = Decimal(text).quantize(Decimal("0.01"))
        if value != Decimal(text) or abs(value) >= 10 ** (digits - 2):
            raise OverflowError(text)
        return value

    return cast


def boolean(text: str) -> bool:
    """What SQL takes for true or false."""
    word = text.strip().lower()
    if word in {"true", "t", "yes", "y", "1"}:
        return True
    if word in {"false", "f", "no", "n", "0"}:
        return False
    raise ValueError(text)


def moment(*forms: str) -> Callable[[str], datetime]:
    """The cast to a time written in one of the forms that TIMES knows."""

    def cast(text: str) -> datetime:
        for form in forms:
            pattern, read = TIMES[form]
            if re.fullmatch(pattern, text):
                return read(text)
        raise ValueError(text)

    return cast


def epoch_ms(text: str) -> datetime:
    """Milliseconds since 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=integer(64)(text))


def iso_moment(text: str) -> datetime:
    """ISO 8601 with a zone."""
    return datetime.fromisoformat(text).astimezone(UTC)


def day_first_moment(text: str) -> datetime:
    """Day, month, year and time, in UTC."""
    return datetime.strptime(text, "%d/%m/%Y %H:%M").replace(tzinfo=UTC)


ZONE = r"(Z|[+-]\d\d(:?\d\d)?)"
TIMES: dict[str, tuple[str, Callable[[str], datetime]]] = {
    "yyyy-MM-dd'T'HH:mm:ssX": (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d" + ZONE, iso_moment),
    "yyyy-MM-dd'T'HH:mm:ss.SSSX": (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}" + ZONE, iso_moment),
    "dd/MM/yyyy HH:mm": (r"\d\d/\d\d/\d{4} \d\d:\d\d", day_first_moment),
}
