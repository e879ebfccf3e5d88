"""Measuring: figures that belong together are taken side by side in one run; nothing passes or fails by the clock.

Each file here is a benchmark. What it finds is shown at the end, kept in include/docs/benchmarks/<name>.json, and put
on the page include/docs/benchmarks.md with what the others found when they last ran.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.bench.measured import Report
from tests.bench.page import RESULTS, shown, write
from tests.stack.conftest import running, spark, stack  # noqa: F401  # fixtures

KEPT = pytest.StashKey[dict[str, Report]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[KEPT] = {}


@pytest.fixture(scope="session")
def extra_settings() -> dict[str, str]:
    """Room for large tables."""
    return {"sample": "false", "spark_driver_memory": "3g"}


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """The report of this benchmark: of the file that the test is in."""
    name = request.path.stem.removeprefix("test_")
    return request.config.stash[KEPT].setdefault(name, Report(name))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    found = [report for report in config.stash[KEPT].values() if report.figures or report.ratios]
    if not found:
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    for report in found:
        (RESULTS / f"{report.name}.json").write_text(json.dumps(report.as_dict(), indent=2) + "\n")
    terminalreporter.section("measured")
    for line in shown(found):
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"{os.cpu_count()} cores, load at the end {os.getloadavg()[0]:.1f}; {write()}")
