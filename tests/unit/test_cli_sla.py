"""The board that `lakehouse sla` shows, and the intervals that `lakehouse batches` does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.cli import data
from lakehouse.cli.sla import _lag, _table
from lakehouse.intervals import Interval
from lakehouse.sla import State, Verdict
from lakehouse.watch import Board
from tests.unit.backfill_world import batch
from tests.unit.contract_folder import BRONZE, SILVER, loaded

END = datetime(2026, 1, 5, 23, tzinfo=UTC)
DAY_IN_BERLIN = Interval(END - timedelta(1), END)


def verdict(state: State = State.MISSED, lag: timedelta = timedelta(0)) -> Verdict:
    return Verdict("silver.events", DAY_IN_BERLIN, END, state, lag)


@pytest.fixture
def in_berlin(tmp_path, monkeypatch) -> None:
    zone = "timezone: Europe/Berlin\n"
    assert loaded(tmp_path, {"silver/events.yaml": SILVER + zone, "bronze/events.yaml": BRONZE + zone}).problems == ()
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path))


@pytest.mark.parametrize(
    ("state", "lag", "said"),
    [
        (State.MISSED, timedelta(hours=1, minutes=5), "1 h 5 min"),
        (State.MISSED, timedelta(days=2), "2 d"),
        (State.WAITING, timedelta(seconds=-30), "due in less than a minute"),
        (State.MET, timedelta(hours=1), ""),
    ],
)
def test_how_late_it_is_or_when_it_is_due(state, lag, said):
    assert _lag(verdict(state, lag)) == said


@pytest.mark.usefixtures("in_berlin")
def test_the_board_names_an_interval_as_alerts_do():
    table = _table(Board((verdict(),), {}, {}))
    assert [list(column.cells) for column in table.columns][:3] == [
        ["silver.events"],
        ["2026-01-05"],
        ["2026-01-05 23:00"],
    ]


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    ("dataset", "said"),
    [("silver.events", "2026-01-05"), ("silver.gone", "2026-01-04 23:00 to 2026-01-05 23:00 UTC")],
)
def test_batches_name_it_too_in_utc_where_the_contract_is_gone(monkeypatch, capsys, dataset, said):
    monkeypatch.setattr(data, "_recent", lambda *_: [batch(dataset, DAY_IN_BERLIN)])
    data.batches(dataset)
    assert capsys.readouterr().out.splitlines()[1].split("\t")[0] == said
