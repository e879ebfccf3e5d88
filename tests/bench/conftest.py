"""Measuring: figures that belong together are taken side by side in one run; nothing passes or fails by the clock.

The figures are shown at the end and kept in .lakehouse/bench/latest.json.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

import pytest

from lakehouse.settings import ROOT
from tests.stack.conftest import running, spark, stack  # noqa: F401  # fixtures

RESULTS = ROOT / ".lakehouse" / "bench" / "latest.json"


@dataclass
class Figure:
    """Several takes of one measurement; the median counts."""

    name: str
    unit: str = "s"
    takes: list[float] = field(default_factory=list)

    @property
    def value(self) -> float:
        return median(self.takes)


@dataclass
class Report:
    """All figures of this run."""

    figures: list[Figure] = field(default_factory=list)
    load_at_start: tuple[float, ...] = field(default_factory=os.getloadavg)

    def add(self, name: str, takes: list[float], unit: str = "s") -> float:
        """Keep a figure; returns its median."""
        self.figures.append(Figure(name, unit, takes))
        return self.figures[-1].value

    def write(self) -> None:
        found: dict[str, Any] = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "cores": os.cpu_count(),
            "load_at_start": self.load_at_start,
            "load_at_end": os.getloadavg(),
            "figures": [{**asdict(figure), "median": figure.value} for figure in self.figures],
        }
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")


KEPT = pytest.StashKey[Report]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[KEPT] = Report()


@pytest.fixture(scope="session")
def extra_settings() -> dict[str, str]:
    """Room for large tables."""
    return {"sample": "false", "spark_driver_memory": "3g"}


@pytest.fixture(scope="session")
def report(request) -> Report:
    return request.config.stash[KEPT]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    found = config.stash[KEPT]
    if not found.figures:
        return
    found.write()
    width = max(len(figure.name) for figure in found.figures)
    terminalreporter.section("measured")
    for figure in found.figures:
        takes = ", ".join(f"{take:.2f}" for take in figure.takes)
        shown = f"   ({takes})" if len(figure.takes) > 1 else ""
        terminalreporter.write_line(f"{figure.name:<{width}}  {figure.value:8.2f} {figure.unit:<2}{shown}")
    load = " → ".join(f"{one[0]:.1f}" for one in (found.load_at_start, os.getloadavg()))
    terminalreporter.write_line(f"{os.cpu_count()} cores, load {load}; kept in {RESULTS.relative_to(ROOT)}")
