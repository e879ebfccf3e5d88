"""How benchmarks are told: what the figures mean, and that the page can be made."""

from __future__ import annotations

import json

import pytest

from tests.bench import page
from tests.bench.measured import Report, interval


@pytest.mark.parametrize(
    ("takes", "expected"),
    [
        ([3.0], (3.0, 3.0, 0.0)),
        ([1.0, 2.0, 3.0], (1.0, 3.0, 0.75)),
        ([5.0, 1.0, 4.0, 2.0, 3.0, 6.0], (1.0, 6.0, 1 - 2 / 2**6)),
        # Of twelve takes the two outermost pairs may go: 1 - 2 (1 + 12 + 66) / 4096 is still above 95 %.
        (list(map(float, range(12))), (2.0, 9.0, 1 - 2 * (1 + 12 + 66) / 2**12)),
    ],
)
def test_the_interval_is_no_surer_than_the_takes_allow(takes, expected):
    assert interval(takes) == pytest.approx(expected)


def test_ratios_are_of_pairs_and_not_of_medians():
    """A machine that was slow for one pair was slow for both of it."""
    report = Report("some")
    report.ratio("ours / peer", [2.0, 20.0, 3.0], [1.0, 10.0, 2.0], at_most=2)
    (ratio,) = report.ratios
    assert ratio.value == 2.0
    assert ratio.kept


def test_a_bound_can_be_missed_on_either_side():
    report = Report("some")
    report.ratio("cost", [3.0], [1.0], at_most=2)
    report.ratio("gain", [3.0], [1.0], at_least=4)
    report.ratio("only told", [3.0], [1.0])
    assert [one.kept for one in report.ratios] == [False, False, None]


def test_the_page_shows_all_results(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "PAGE", tmp_path / "benchmarks.md")
    monkeypatch.setattr(page, "PLOT", tmp_path / "plot.svg")
    report = Report("gates")
    report.add("ours", [1.0, 1.2, 1.1])
    report.ratio("ours / peer", [1.0, 1.2, 1.1], [1.0, 1.0, 1.0], at_most=1.25)
    (tmp_path / "gates.json").write_text(json.dumps(report.as_dict()))
    page.write()
    text = (tmp_path / "benchmarks.md").read_text()
    assert "| ours / peer | 1.10 × | at most 1.25 | 1.00 to 1.20 (75%, 3 pairs) |" in text
    assert "</svg>" in (tmp_path / "plot.svg").read_text()
