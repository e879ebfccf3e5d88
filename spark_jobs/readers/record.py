"""What a file is cut into."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

LONGEST = 64 << 20
TOO_LONG = f"longer than {LONGEST >> 20} MiB"
INVALID = "invalid UTF-8"


class Record(NamedTuple):
    """One record: its text, its place in the file, and why it is malformed if it is."""

    payload: str
    offset: int
    malformed: str | None = None


def bounded(record: Record) -> Record:
    """A record that is too long for a row, cut and marked."""
    if len(record.payload) <= LONGEST:
        return record
    return Record(record.payload[:LONGEST], record.offset, record.malformed or TOO_LONG)


def distinct(names: Iterable[str]) -> list[str]:
    """The names, the later ones of several alike with the first free number: id, id_2, id_3."""
    names = list(names)
    taken = set(names)
    numbers: dict[str, count[int]] = {}
    found = []
    for name in names:
        if name not in numbers:
            numbers[name] = count(2)
            found.append(name)
            continue
        found.append(next(free for number in numbers[name] if (free := f"{name}_{number}") not in taken))
        taken.add(found[-1])
    return found
