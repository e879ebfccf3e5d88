"""What a rollback says of the datasets that were built from what it undoes."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from lakehouse.contracts import contract
from lakehouse.intervals import Interval
from lakehouse.rollback import told
from lakehouse.rollback.downstream import Downstream
from tests.unit.iceberg_tables import midnight

FIRST = midnight(date(2026, 1, 1))
DAYS = tuple(Interval(FIRST + timedelta(n), FIRST + timedelta(n + 1)) for n in range(3))
BACK = "unless the same comes again: lakehouse rollback silver.orders --to 7 --yes"
STAYS = "and stays: what silver.orders has from before 2026-01-03, as bronze.orders has let these rows go"


def lines(monkeypatch: pytest.MonkeyPatch, dataset: str, kept_from: date | None, before: int | None = 7) -> list[str]:
    monkeypatch.setattr(told, "table", lambda name: name)
    monkeypatch.setattr(told, "rows_from", lambda name: kept_from if name == "bronze.orders" else None)
    monkeypatch.setattr(told, "run_again", lambda _, intervals: ", ".join(f"{one.start:%d}" for one in intervals))
    found = list(told._built_from(Downstream(contract(dataset), DAYS, before)))
    assert all(line.startswith("built from what is undone, ") for line in found)
    return [line.removeprefix("built from what is undone, ") for line in found]


@pytest.mark.parametrize(
    ("kept_from", "back", "again"),
    [
        (None, BACK, ["to be built again: 01, 02, 03"]),
        (date(2026, 1, 1), BACK, ["to be built again: 01, 02, 03"]),
        (date(2026, 1, 3), STAYS, ["to be built again: 03"]),
        (date(2026, 1, 4), STAYS.replace("01-03", "01-04"), []),
    ],
)
def test_nothing_is_advised_that_would_be_refused_for_records_that_were_let_go(monkeypatch, kept_from, back, again):
    first, *others = lines(monkeypatch, "silver.orders", kept_from)
    assert first.startswith(back)
    assert others == again


def test_gold_is_built_again_and_so_is_silver_that_held_nothing_before(monkeypatch):
    assert lines(monkeypatch, "gold.daily_sales", None) == ["to be built again: 01, 02, 03"]
    assert lines(monkeypatch, "silver.orders", None, before=None) == ["to be built again: 01, 02, 03"]
