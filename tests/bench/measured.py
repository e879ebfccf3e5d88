"""What a benchmark found: figures, and ratios of takes that were measured side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from math import comb
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figure:
    """Several takes of one measurement; the median counts."""

    name: str
    unit: str
    takes: tuple[float, ...]

    @property
    def value(self) -> float:
        return median(self.takes)


@dataclass(frozen=True)
class Ratio:
    """One thing beside its peer: a ratio of each pair of takes, and what is hoped of their median."""

    name: str
    unit: str
    pairs: tuple[float, ...]
    at_most: float | None = None
    at_least: float | None = None

    @property
    def value(self) -> float:
        return median(self.pairs)

    @property
    def kept(self) -> bool | None:
        """Whether the hope came true, if there is one."""
        if self.at_most is None and self.at_least is None:
            return None
        within = self.at_most is None or self.value <= self.at_most
        return within and (self.at_least is None or self.value >= self.at_least)


def interval(takes: Sequence[float], wanted: float = 0.95) -> tuple[float, float, float]:
    """Where the true median lies: lowest, highest, and how sure that is.

    By the order of the takes alone, whatever their distribution: the median lies outside of the k-th lowest and highest
    as often as a fair coin falls on one side fewer than k times. Few takes cannot be surer than they are.
    """
    ordered, count = sorted(takes), len(takes)
    sure = [1 - 2 * sum(comb(count, n) for n in range(k)) / 2**count for k in range(1, count // 2 + 1)]
    narrow = max((k for k, one in enumerate(sure) if one >= wanted), default=0)
    return ordered[narrow], ordered[count - 1 - narrow], max(sure[narrow] if sure else 0.0, 0.0)


@dataclass
class Report:
    """All that one benchmark found."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    load_at_start: tuple[float, ...] = field(default_factory=os.getloadavg)

    def add(self, name: str, takes: Sequence[float], unit: str = "s") -> float:
        """Keep a figure; returns its median."""
        self.figures.append(Figure(name, unit, tuple(takes)))
        return self.figures[-1].value

    def ratio(
        self,
        name: str,
        ours: Sequence[float],
        peers: Sequence[float],
        *,
        unit: str = "×",
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> None:
        """Keep how takes compare with those of the peer that were taken beside them, pair by pair."""
        scale = 100 if unit == "%" else 1
        pairs = tuple(scale * one / other for one, other in zip(ours, peers, strict=True))
        self.ratios.append(Ratio(name, unit, pairs, at_most, at_least))

    def as_dict(self) -> dict[str, Any]:
        return {
            "benchmark": self.name,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "cores": os.cpu_count(),
            "load_at_start": self.load_at_start,
            "load_at_end": os.getloadavg(),
            "figures": [{**asdict(one), "median": one.value} for one in self.figures],
            "ratios": [{**asdict(one), "median": one.value, "interval": interval(one.pairs)} for one in self.ratios],
        }
