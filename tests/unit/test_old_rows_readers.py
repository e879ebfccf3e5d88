"""Who holds old rows of bronze, and what is made of bronze when they went."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from pyiceberg.table.refs import SnapshotRefType

from lakehouse import naming, plan
from lakehouse.batch import Batch, Corrections, TableWrite
from lakehouse.cleaned import cleans
from lakehouse.contracts import contract
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Coverage, Interval
from lakehouse.ledger import batches, taken_files
from lakehouse.maintenance import held, readers
from lakehouse.naming import COVERAGE
from lakehouse.plan import Attempt
from tests.unit.iceberg_tables import append, file, midnight, set_ref, versions

ORDERS = contract("silver.orders")
BEFORE = date(2026, 3, 1)


def hours(first: datetime, count: int, each: int = 1) -> list[Interval]:
    """So many intervals of so many hours, one after the other."""
    length = timedelta(hours=each)
    return [Interval(first + n * length, first + (n + 1) * length) for n in range(count)]


FIRST = midnight(date(2026, 1, 1))
IN_BERLIN = datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))
DAYS = hours(FIRST, 3, 24)
WEEK = Interval(midnight(date(2026, 1, 4)), midnight(date(2026, 1, 11)))


def batch(dataset: str, of: Interval, content: object = "", version: str = "then", **counts: int) -> Batch:
    mark = naming.digest(content)
    return Batch(
        batch_id=naming.batch_id(dataset, of, mark),
        dataset=dataset,
        interval_start=of.start,
        interval_end=of.end,
        fingerprint=mark,
        contract_version=version,
        run="",
        attempt="",
        counts=counts or {"rows_in": 1},
    )


def cleaned(of: Interval, known: Sequence[Batch]) -> Batch:
    """What silver made of these."""
    return batch("silver.orders", of, cleans("then", known, Corrections()))


class World:
    """What bronze and silver published, newest first."""

    def __init__(self) -> None:
        self.bronze: list[Batch] = []
        self.silver: list[Batch] = []

    def take(self, *of: Interval, content: object = "") -> None:
        self.bronze[:0] = [batch("bronze.orders", one, content) for one in of]

    def clean(self, *of: Interval) -> None:
        """As a plan has it: from all of the interval's batches."""
        for one in of:
            mine = [b for b in self.bronze if one.start <= b.interval_start and b.interval_end <= one.end]
            self.silver.insert(0, cleaned(one, mine))

    @property
    def held(self) -> list[str]:
        return list(readers._untaken(ORDERS, None, BEFORE))


@pytest.fixture
def world(monkeypatch) -> World:
    found = World()
    monkeypatch.setattr(batches, "published", lambda name: found.bronze if name == "bronze.orders" else found.silver)
    monkeypatch.setattr(taken_files, "corrections", lambda _: Corrections())
    monkeypatch.setattr(readers, "table", lambda _: None)
    monkeypatch.setattr(readers, "moved_away_from", lambda *_: set())
    return found


# --- Who holds them ---


@pytest.mark.parametrize(
    "intervals",
    [DAYS, hours(FIRST, 24), hours(IN_BERLIN, 3, 24), [WEEK], [*DAYS, *hours(midnight(date(2026, 1, 4)), 24)]],
    ids=["as they are", "hourly once", "in Berlin once", "weekly once", "daily once, and hourly"],
)
def test_what_silver_took_under_any_schedule_is_taken(world, intervals):
    world.take(*intervals)
    world.clean(*intervals)
    assert world.held == []
    world.take(intervals[-1], content="a late file")
    assert len(world.held) == 2, "both batches of the interval that is not as it is now"
    world.clean(intervals[-1])
    assert world.held == []


def test_what_silver_took_as_parts_of_a_wider_interval_is_taken(world):
    days = hours(WEEK.start, 7, 24)
    world.take(*days)
    world.clean(*days[:3], WEEK)
    assert world.held == []
    world.take(days[5], content="a late file")
    assert world.held[0] == "silver.orders has yet to take 2026-01-07 as it is now", "the parts stand as they were"


def test_an_interval_of_bronze_that_lies_across_several_of_silver_is_taken_by_none_of_them(world):
    world.take(WEEK)
    world.clean(*hours(WEEK.start, 7, 24))
    assert world.held == ["silver.orders has yet to take 2026-01-04 to 2026-01-10 as it is now"]


def test_only_what_is_about_to_go_and_is_asked_for_has_to_be_taken(world):
    world.take(*DAYS, Interval(midnight(BEFORE), midnight(BEFORE + timedelta(1))))
    world.clean(*DAYS[1:])
    assert world.held == ["silver.orders has yet to take 2026-01-01 as it is now"]
    assert list(readers._untaken(ORDERS, date(2026, 1, 2), BEFORE)) == []
    later = ORDERS.model_copy(update={"start": date(2026, 1, 2)})
    assert list(readers._untaken(later, None, BEFORE)) == []


@pytest.mark.parametrize(
    ("schedule", "zone", "there", "hole"),
    [
        ("@weekly", "UTC", Interval(FIRST, midnight(date(2026, 1, 14))), "2026-01-11 to 2026-01-17"),
        ("@weekly", "UTC", Interval(FIRST, midnight(date(2026, 3, 1))), ""),
        ("@daily", "Europe/Berlin", Interval(FIRST, midnight(BEFORE)), "2026-01-01"),  # it began an hour before
        ("@daily", "Europe/Berlin", Interval(IN_BERLIN, midnight(BEFORE)), "2026-03-01"),
        ("@daily", "Europe/Berlin", Interval(IN_BERLIN, midnight(date(2026, 3, 2))), ""),
        ("@daily", "America/New_York", Interval(FIRST, midnight(date(2026, 3, 2))), ""),
        ("@hourly", "UTC", Interval(FIRST, midnight(BEFORE)), ""),
    ],
)
def test_an_interval_is_missing_that_the_former_schedule_took_a_part_of(monkeypatch, schedule, zone, there, hole):
    source = contract("bronze.orders").model_copy(update={"schedule": schedule, "timezone": zone})
    monkeypatch.setattr(readers, "table", lambda _: None)
    monkeypatch.setattr(readers, "coverage", lambda _: Coverage.of([there]))
    told = [f"bronze.orders has yet to take {hole}"] if hole else []
    assert list(readers._holes(source, None, BEFORE)) == told


def test_many_intervals_are_looked_at_in_seconds(world):
    every = hours(FIRST, 24 * 59)
    world.take(*every)
    world.clean(*every[:-1])
    assert world.held == ["silver.orders has yet to take 2026-02-28 23:00 to 2026-03-01 00:00 UTC as it is now"]


def test_rows_stay_where_somebody_moved_main_of_silver_back(world, table, monkeypatch):
    monkeypatch.setattr(readers, "moved_away_from", held.moved_away_from)
    monkeypatch.setattr(readers, "table", lambda _: table)
    with table.transaction() as change:
        change.set_properties({COVERAGE: Coverage.of(DAYS).dumps()})
    world.take(*DAYS)
    world.clean(*DAYS)
    line = versions(table)
    for number, one in enumerate(reversed(world.silver)):
        write = TableWrite(table="silver.orders", branch="", base=line[number], head=line[number + 1])
        world.silver[2 - number] = one.model_copy(update={"writes": (write,)})
    assert world.held == []
    set_ref(table, "main", SnapshotRefType.BRANCH, line[2])
    newest = world.silver[0].batch_id
    assert world.held == [f"somebody moved main of silver.orders back to before {newest}; bring it forward again"]
    append(table, [file("again", 5)], **{naming.BATCH: newest})
    assert world.held == [], "another try of the batch brought the same"
    with table.transaction() as change:
        change.set_properties({COVERAGE: Coverage.of(DAYS[:2]).dumps()})
    assert len(world.held) == 1


# --- What is made later, also where bronze keeps its rows by now ---


def test_gold_is_not_built_from_what_has_let_rows_go(monkeypatch):
    properties = {COVERAGE: Coverage.of(DAYS).dumps(), naming.ROWS_FROM: "2026-03-07"}
    monkeypatch.setattr(plan, "table", lambda _: SimpleNamespace(properties=properties))
    told = "silver.clicks has let its rows from before 2026-03-07 go; read silver instead"
    with pytest.raises(LakehouseError, match=told):
        plan._plan_build(contract("gold.click_sessions"), DAYS[0], Attempt("run", 1))


@pytest.mark.parametrize("newest_by", [("status",), ("_source_offset",)])
def test_silver_does_not_look_back_past_what_went_where_no_time_tells_what_is_newer(monkeypatch, newest_by):
    monkeypatch.setattr(taken_files, "published_until", lambda *_: FIRST)
    assert plan._gone_until(ORDERS, BEFORE) is not None
    told = "cannot tell a record that is newer than all that bronze.orders has let go; make a timestamp the first"
    with pytest.raises(LakehouseError, match=told):
        plan._gone_until(ORDERS.model_copy(update={"newest_by": newest_by}), BEFORE)
    events = ORDERS.model_copy(update={"delivers": "events", "newest_by": ()})
    assert plan._gone_until(events, BEFORE) is not None, "each is a row of its own"
