"""The board that `lakehouse sla` shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.cli.sla import _lag
from lakehouse.intervals import Interval
from lakehouse.sla import State, Verdict

START = datetime(2026, 1, 5, tzinfo=UTC)


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
    interval = Interval(START, START + timedelta(1))
    assert _lag(Verdict("silver.orders", interval, START + timedelta(1), state, lag)) == said
