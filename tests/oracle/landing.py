"""Which landing files a run takes, and which of them count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date


@dataclass(frozen=True)
class File:
    """A version of a landing file; the second and later ones are corrections, a repeat has the rows of another."""

    day: date
    key: str
    data: bytes
    version: int
    repeats: File | None = None


class Landing:
    """What one dataset has seen so far."""

    def __init__(self, *, days_may_repeat: bool) -> None:
        self.days_may_repeat = days_may_repeat
        self.seen: list[File] = []

    def take(self, day: date, folder: Mapping[str, bytes]) -> list[File]:
        """The files of a day's folder that are new, or not as they were."""
        newest = self.newest()
        changed = [key for key in sorted(folder) if is_data(key) and not same(newest.get(key), folder[key])]
        found = []
        for number, key in enumerate(changed):
            version = 1 + sum(file.key == key for file in self.seen)
            known = self.known(day, folder[key], waiting=changed[number:])
            found.append(File(day, key, folder[key], version, known))
            self.seen.append(found[-1])
        return found

    def known(self, day: date, data: bytes, waiting: list[str]) -> File | None:
        """The version taken with these bytes, if a file has them now; those that wait for their turn do not count."""
        others = [file for file in self.newest().values() if file.key not in waiting and file.data == data]
        alike = [file for file in others if file.day == day or not self.days_may_repeat]
        return (alike[0].repeats or alike[0]) if alike else None

    def newest(self) -> dict[str, File]:
        """The newest version of each file."""
        return {file.key: file for file in self.seen}

    def current(self, day: date) -> list[File]:
        """The files of a day that count: as they are, or, once corrected, under the first name that still has them."""
        newest = sorted(self.newest().values(), key=lambda file: file.key)
        heirs: dict[File, str] = {}
        for file in newest:
            if file.repeats is not None and file.repeats not in newest:
                heirs.setdefault(file.repeats, file.key)
        kept = [replace(taken, key=key) for taken, key in heirs.items()]
        return [file for file in (*newest, *kept) if file.day == day and file.repeats is None]


def same(file: File | None, data: bytes) -> bool:
    """Whether a file is known as it is."""
    return file is not None and file.data == data


def is_data(key: str) -> bool:
    """Markers begin with an underscore."""
    return not key.rsplit("/", 1)[-1].startswith("_")
