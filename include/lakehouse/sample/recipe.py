"""What is asked of the generator: how much, from which seed, and how dirty."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from random import Random
from typing import TypeVar

from lakehouse.errors import LakehouseError

Choice = TypeVar("Choice")

# The shop opened on this day; nothing happened before it.
EPOCH = date(2020, 1, 1)
DAY_MS = 86_400_000
EPOCH_MS = (EPOCH - date(1970, 1, 1)).days * DAY_MS
# Fixed, not counted from the first day asked for: a day's bytes must not depend on the range.
DRIFT_FROM = date(2026, 1, 3)

# How often each kind of dirt strikes: per change, and for out_of_order per key. Drift is a matter of the day, and
# redelivered of the folder: each holds a file of the day before.
RATES = {
    "duplicates": 0.02,
    "malformed": 0.006,
    "currency": 0.03,
    "formats": 0.05,
    "late": 0.03,
    "out_of_order": 0.05,
    "invalid": 0.01,
    "drift": 1.0,
    "redelivered": 1.0,
}
DIRT = tuple(RATES)
DEFAULT_DIRT = tuple(name for name in DIRT if name not in {"drift", "redelivered"})
MAX_SCALE = 1000.0


@dataclass(frozen=True)
class Recipe:
    """One way of making the shop; equal recipes make equal bytes."""

    scale: float = 1.0
    seed: int = 7
    dirt: frozenset[str] = frozenset(DEFAULT_DIRT)
    drift_from: date = DRIFT_FROM

    @classmethod
    def of(cls, scale: float, seed: int, dirt: Collection[str] | None, drift_from: date | None = None) -> Recipe:
        """A checked recipe; no dirt given means the default dirt."""
        if not 0 < scale <= MAX_SCALE:
            raise LakehouseError(f"Scale must be above 0 and at most {MAX_SCALE:g}, not {scale:g}.")
        chosen = frozenset(DEFAULT_DIRT if dirt is None else dirt)
        if unknown := sorted(chosen - set(DIRT)):
            raise LakehouseError(f"No dirt is called '{unknown[0]}'; there are {', '.join(DIRT)}.")
        return cls(scale, seed, chosen, drift_from or DRIFT_FROM)

    def count(self, at_scale_one: int) -> int:
        """How many there are at this scale; never none."""
        return max(1, round(at_scale_one * self.scale))

    def random(self, *what: object) -> Random:
        """The random numbers of one named thing, on every machine the same."""
        return Random(f"{self.seed}:{':'.join(map(str, what))}")  # noqa: S311  invented data needs no secrecy

    def struck(self, kind: str, luck: Random, options: Sequence[Choice]) -> Choice | None:
        """One of the options where this kind of dirt strikes, else None.

        Takes exactly one random number, struck or not, so that switching one kind on does not move the others.
        """
        drawn = luck.random() / RATES[kind]
        return options[int(drawn * len(options))] if kind in self.dirt and drawn < 1 else None


def day_number(day: date) -> int:
    """Days since the epoch."""
    return (day - EPOCH).days


def day_number_of(ms: int) -> int:
    """Days from the epoch to the UTC day of a moment in epoch milliseconds."""
    return (ms - EPOCH_MS) // DAY_MS


def midnight_ms(day: date) -> int:
    """The first moment of a UTC day, in epoch milliseconds."""
    return EPOCH_MS + day_number(day) * DAY_MS
