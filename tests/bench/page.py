"""The page of all results, and the plot on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lakehouse.settings import ROOT
from tests.bench.measured import Report

PAGE = ROOT / "include" / "docs" / "benchmarks.md"
# Beside the page, so that who measures one of them anew leaves the others as they are.
RESULTS = PAGE.with_name("benchmarks")
PLOT = PAGE.with_name("images") / "benchmarks.svg"
INTRODUCTION = """# Benchmarks

`make bench` measures, and writes this page; `make bench ONLY=gates` runs one of them. What belongs together is measured
side by side in one run, in turns, and compared pair by pair. A ratio is the median of its pairs; the interval is where
the true median lies, with the certainty that so many pairs allow. Machines differ, ratios less so.
"""


def shown(reports: Iterable[Report]) -> Iterator[str]:
    """Lines for a terminal."""
    for report in reports:
        yield report.name
        for figure in report.figures:
            takes = ", ".join(f"{take:.2f}" for take in figure.takes)
            more = f"   ({takes})" if len(figure.takes) > 1 else ""
            yield f"  {figure.value:10.2f} {figure.unit:<4} {figure.name}{more}"
        for ratio in report.as_dict()["ratios"]:
            yield f"  {ratio['median']:10.2f} {ratio['unit']:<4} {ratio['name']}   {_asked(ratio)} {_range(ratio)}"


def write() -> str:
    """Make page and plot from all results that there are; returns what to tell."""
    found = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))]
    found = [one for one in found if one.get("benchmark")]
    PAGE.write_text("\n".join(_page(found)))
    if compared := _compared(found):
        plot(compared, PLOT)
    return f"on the page {PAGE.name}"


def plot(ratios: Sequence[dict[str, Any]], file: Path) -> None:
    """Each ratio as a share of what is asked of it: to the left of the line is better."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lakehouse"
    from matplotlib import pyplot as plt

    drawing, axes = plt.subplots(figsize=(9, 0.42 * len(ratios) + 1), layout="constrained")
    for row, ratio in enumerate(reversed(ratios)):
        low, middle, high = sorted(_share(ratio, value) for value in (*ratio["interval"][:2], ratio["median"]))
        colour = "#1a7f37" if middle <= 1 else "#cf222e"
        axes.plot([low, high], [row, row], color=colour, linewidth=6, alpha=0.3, solid_capstyle="round")
        axes.plot([middle], [row], "o", color=colour)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(ratios)), [f"{one['name']} ({_asked(one)})" for one in reversed(ratios)])
    axes.set_xlabel("share of what is allowed")
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    drawing.savefig(file, metadata={"Date": None})
    plt.close(drawing)


def _page(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield INTRODUCTION
    if _compared(found):
        yield f"![Ratios beside what is asked of them](images/{PLOT.name})\n"
    for one in found:
        yield f"## {one['benchmark']}\n"
        yield f"{one['at'][:10]}, {one['cores']} cores, load {one['load_at_start'][0]:.1f} at the start.\n"
        if one["ratios"]:
            yield "| ratio | median | asked | interval |\n| --- | ---: | --- | --- |"
            for ratio in one["ratios"]:
                middle = f"{ratio['median']:.2f} {ratio['unit']}"
                yield f"| {ratio['name']} | {middle} | {_asked(ratio)} | {_range(ratio)} |"
            yield ""
        yield "| figure | median | takes |\n| --- | ---: | --- |"
        for figure in one["figures"]:
            takes = ", ".join(f"{take:.2f}" for take in figure["takes"])
            yield f"| {figure['name']} | {figure['median']:.2f} {figure['unit']} | {takes} |"
        yield ""


def _compared(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ratios of which something is asked."""
    return [ratio for one in found for ratio in one["ratios"] if _asked(ratio)]


def _share(ratio: dict[str, Any], value: float) -> float:
    return float(value / ratio["at_most"] if ratio["at_most"] is not None else ratio["at_least"] / value)


def _asked(ratio: dict[str, Any]) -> str:
    if ratio["at_most"] is not None:
        return f"at most {ratio['at_most']:g}"
    return f"at least {ratio['at_least']:g}" if ratio["at_least"] is not None else ""


def _range(ratio: dict[str, Any]) -> str:
    low, high, sure = ratio["interval"]
    if len(ratio["pairs"]) == 1:
        return "one pair"
    return f"{low:.2f} to {high:.2f} ({sure:.0%}, {len(ratio['pairs'])} pairs)"
