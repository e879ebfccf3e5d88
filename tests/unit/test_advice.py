"""Commands that are told to people: they exist, and can be pasted as they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse import advice, quarantine
from lakehouse.backfill.airflow import Backfills
from lakehouse.backfill.execute import refuse_paused
from lakehouse.backfill.plan import Plan, Step
from lakehouse.contracts.model import Silver
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval
from lakehouse.jobs import Chosen
from lakehouse.rollback import told as rollback
from tests.unit.backfill_world import BRONZE_NAME, GOLD_NAME, SILVER_NAME, contracts, day, days
from tests.unit.contract_folder import BRONZE, SILVER, loaded
from tests.unit.test_readme import check_airflow, check_lakehouse

MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
AGAIN = "lakehouse airflow dags backfill -s 2026-01-02 -e 2026-01-04 silver_events --reset-dagruns -y"


def silver(folder: Path, text: str, more: str = "") -> Silver:
    """The contract, with more lines in it and in that of its input."""
    taken = BRONZE.replace('%d}/"}', '%dT%H%z}/", recognise: interval}')
    found = loaded(folder, {"silver/events.yaml": text + more, "bronze/events.yaml": taken + more})
    assert found.problems == ()
    contract = found.contracts[SILVER_NAME]
    assert isinstance(contract, Silver)
    return contract


def test_every_command_exists(tmp_path):
    known = contracts(tmp_path)
    told = [
        advice.run_again(known[SILVER_NAME], days(2)),
        advice.build_first(known[SILVER_NAME], day(2)),
        advice.unpause(["silver_events"]),
        advice.runs("silver_events"),
        advice.IMPORT_ERRORS,
    ]
    text = "\n".join(f"`{one}`" for one in told)
    check_lakehouse(text)
    check_airflow(text)
    assert all(one.startswith("lakehouse ") for one in told)


def test_days_are_run_again_from_the_first_to_the_last(tmp_path):
    assert advice.run_again(contracts(tmp_path)[SILVER_NAME], days(4, 2, 3)) == AGAIN


def test_an_hour_at_midnight_is_not_the_whole_day(tmp_path):
    hour = Interval(MIDNIGHT, MIDNIGHT + timedelta(hours=1))
    found = advice.run_again(contracts(tmp_path, bronze="@hourly", silver="@hourly")[SILVER_NAME], [hour])
    assert "-s 2026-01-05T00:00+00:00 -e 2026-01-05T00:00+00:00 " in found


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "-s 2026-01-03 -e 2026-01-04"),
        ("timezone: Europe/Berlin\n", "-s 2026-01-03 -e 2026-01-05"),
        ('schedule: "@hourly"\n', "-s 2026-01-03T00:00+00:00 -e 2026-01-04T23:00+00:00"),
        ('schedule: "0 0 * * 4"\n', "-s 2026-01-01 -e 2026-01-01"),
    ],
)
def test_an_input_is_built_for_all_of_that_time_by_its_own_schedule_and_zone(tmp_path, more, said):
    found = advice.build_first(silver(tmp_path, SILVER, more), day(3, 2))
    assert found == f"lakehouse backfill silver.events {said} --upstream"


def test_what_a_rollback_undoes_is_to_be_run_again_then_what_was_built_from_it(tmp_path, monkeypatch):
    known = contracts(tmp_path)
    built = SimpleNamespace(contract=known[GOLD_NAME], intervals=tuple(days(3)), before=None)
    monkeypatch.setattr(rollback, "undone_intervals", lambda _: days(2, 3, 4))
    monkeypatch.setattr(rollback, "downstream", lambda *_: [built])
    planned: Any = None
    gold = "lakehouse airflow dags backfill -s 2026-01-03 -e 2026-01-03 gold_daily --reset-dagruns -y"
    assert list(rollback._to_be_built(known[SILVER_NAME], planned, known.values())) == [
        f"to be built again: {AGAIN}",
        f"built from what is undone, to be built again: {gold}",
    ]


@pytest.mark.parametrize(
    ("start", "instead"),
    [
        (day(2).start, AGAIN.replace("01-04", "01-02")),
        (None, "`lakehouse quarantine list silver.events` says which"),
    ],
)
def test_whole_snapshots_are_run_again_instead_of_replayed(tmp_path, start, instead):
    contract = silver(tmp_path, SILVER.replace("newest_by: [seen_at]", "delivers: snapshot"))
    chosen = Chosen(resolution="replayed", by="me", why="mended", interval_start=start)
    anything: Any = None
    with pytest.raises(LakehouseError) as refused:
        quarantine.resolve(contract, chosen, anything, anything)
    assert str(refused.value).endswith(f"run the interval again instead, {instead}")


def test_paused_dags_are_to_be_switched_on_first():
    api: Any = SimpleNamespace(dag=lambda name: SimpleNamespace(dag_id=name, paused=True))
    steps = tuple(Step(name, day(1), "missing") for name in (BRONZE_NAME, SILVER_NAME))
    with pytest.raises(LakehouseError) as refused:
        refuse_paused(Plan(steps), api)
    assert str(refused.value).endswith(
        "first: lakehouse airflow dags unpause bronze_events && lakehouse airflow dags unpause silver_events"
    )


def test_why_airflow_does_not_know_a_dag_can_be_looked_up(monkeypatch):
    monkeypatch.setattr(Backfills, "_pages", lambda *_, **__: [])
    with pytest.raises(LakehouseError, match="`lakehouse airflow dags list-import-errors` may say why"):
        Backfills.dag(object.__new__(Backfills), "silver_events")
