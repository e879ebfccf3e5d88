"""Which landing files a run takes, and which of them count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class File:
    """A version of a landing file; the second and later ones are corrections, a repeat brings no rows."""

    day: date
    key: str
    data: bytes
    version: int
    repeat: bool


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
            repeat = self.repeats(day, folder[key], waiting=changed[number:])
            found.append(File(day, key, folder[key], version, repeat))
            self.seen.append(found[-1])
        return found

    def repeats(self, day: date, data: bytes, waiting: list[str]) -> bool:
        """Whether a file that counts has these bytes already; those that wait for their turn count no more."""
        others = [file for file in self.newest().values() if not file.repeat and file.key not in waiting]
        return any(file.data == data and (file.day == day or not self.days_may_repeat) for file in others)

    def newest(self) -> dict[str, File]:
        """The newest version of each file."""
        return {file.key: file for file in self.seen}

    def current(self, day: date) -> list[File]:
        """The files of a day that count."""
        return [file for file in self.newest().values() if file.day == day and not file.repeat]


def same(file: File | None, data: bytes) -> bool:
    """Whether a file is known as it is."""
    return file is not None and file.data == data


def is_data(key: str) -> bool:
    """Markers begin with an underscore."""
    return not key.rsplit("/", 1)[-1].startswith("_")
