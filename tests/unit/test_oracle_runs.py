"""The oracle is right about runs: which files they take, what a correction changes, and what the feed tells of it."""

from __future__ import annotations

import pytest

from lakehouse.sample import DIRT, Recipe, corrected
from lakehouse.sample.generator import folder_files
from tests.oracle import Change, Oracle, Run, replayed
from tests.unit.oracle_shop import DAY, DAYS, change, counts, put, ran


def statuses(shop: Oracle) -> dict[int, str]:
    return {key: row["status"] for key, row in shop.silver.items()}


def told(run: Run | None) -> list[tuple[str, int, str]]:
    """The change feed of orders: what, which, and its status."""
    return [(change.change, change.key, change.row["status"]) for change in ran(run).feed]


# Which files a run takes


def test_a_run_that_finds_nothing_new_does_nothing() -> None:
    shop, folder = Oracle("orders"), put("orders", a=[change(1, 1)])
    ran(shop.run(DAY, folder))
    assert shop.run(DAY, folder) is None
    assert shop.run(DAY, {}) is None
    assert (shop.bronze, len(shop.runs), len(shop.silver)) == ({DAY: 1}, 1, 1)


def test_a_first_run_with_nothing_but_a_marker_is_a_run() -> None:
    shop = Oracle("orders")
    assert counts(shop.run(DAY, {f"orders/{DAY}/_SUCCESS": b"done"})) == {}
    assert shop.bronze == {DAY: 0}


def test_of_two_files_with_the_same_bytes_in_one_run_the_first_by_name_is_taken() -> None:
    shop = Oracle("orders")
    run = shop.run(DAY, put("orders", b=["oops"], a=["oops"]))
    assert ran(run).taken == (f"orders/{DAY}/a.jsonl",)
    assert [rejected.source_file for rejected in shop.quarantine] == [f"s3://landing/orders/{DAY}/a.jsonl"]
    assert shop.bronze == {DAY: 1}


def test_bytes_that_came_before_are_not_taken_again_on_another_day() -> None:
    shop, lines = Oracle("orders"), [change(1, 1), "oops"]
    shop.run(DAY, put("orders", a=lines))
    assert counts(shop.run(DAYS[1], put("orders", DAYS[1], again=lines))) == {}
    assert shop.bronze == {DAY: 2, DAYS[1]: 0}
    assert len(shop.quarantine) == 1


def test_the_same_bytes_in_a_day_that_is_done_are_nothing_new() -> None:
    shop, lines = Oracle("orders"), [change(1, 1)]
    shop.run(DAY, put("orders", a=lines))
    assert shop.run(DAY, put("orders", a=lines, b=lines)) is None
    assert shop.bronze == {DAY: 1}


def test_of_a_corrected_file_bronze_keeps_both_versions_and_all_else_the_newest() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=["oops", change(1, 1)]))
    run = ran(shop.run(DAY, put("orders", a=[change(1, 1, status="paid"), "o", "oops"])))
    assert shop.bronze == {DAY: 5}
    assert statuses(shop) == {1: "paid"}
    assert [rejected.source_offset for rejected in shop.quarantine] == [1, 2]
    assert run.counts is None


def test_a_correction_that_is_taken_back_is_a_third_version() -> None:
    shop, first = Oracle("orders"), put("orders", a=[change(1, 1)])
    for folder in (first, put("orders", a=[change(1, 1, status="paid")]), first):
        ran(shop.run(DAY, folder))
    assert statuses(shop) == {1: "new"}
    assert shop.bronze == {DAY: 3}


def test_bytes_that_no_file_brings_any_more_are_new() -> None:
    shop, wrong = Oracle("orders"), [change(1, 1)]
    shop.run(DAY, put("orders", a=wrong, b=wrong))
    shop.run(DAY, put("orders", a=[change(1, 2, status="paid")], b=[change(2, 1)]))
    run = shop.run(DAYS[1], put("orders", DAYS[1], again=wrong))
    assert counts(run) == {"rows_in": 1, "superseded": 1}


def test_bytes_that_another_file_still_brings_count_under_its_name() -> None:
    shop, wrong = Oracle("orders"), [change(1, 1), change(2, 1), "oops"]
    shop.run(DAY, put("orders", a=wrong))
    assert counts(shop.run(DAYS[1], put("orders", DAYS[1], again=wrong))) == {}
    shop.run(DAY, put("orders", a=[change(1, 1, status="paid")]))
    assert statuses(shop) == {1: "new", 2: "new"}, "at the same time and line, the later name wins"
    assert [(one.day, one.source_file) for one in shop.quarantine] == [
        (DAY, f"s3://landing/orders/{DAYS[1]}/again.jsonl")
    ]
    assert shop.bronze == {DAY: 4, DAYS[1]: 0}


def test_a_file_that_changes_its_name_is_taken_under_the_new_one() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", b=[change(1, 1)]))
    run = ran(shop.run(DAY, put("orders", a=[change(1, 1)], b=[change(2, 1)])))
    assert run.taken == (f"orders/{DAY}/a.jsonl", f"orders/{DAY}/b.jsonl")
    assert statuses(shop) == {1: "new", 2: "new"}


def test_a_file_corrected_to_what_another_one_holds_brings_no_rows_of_its_own() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1)], b=[change(2, 1)]))
    assert told(shop.run(DAY, put("orders", a=[change(2, 1)], b=[change(2, 1)]))) == [("delete", 1, "new")]
    assert (shop.bronze, statuses(shop)) == ({DAY: 2}, {2: "new"})


def test_files_that_swap_their_bytes_still_bring_all_rows() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1)], b=[change(2, 1)]))
    assert told(shop.run(DAY, put("orders", b=[change(1, 1)], a=[change(2, 1)]))) == []
    assert (shop.bronze, statuses(shop)) == ({DAY: 4}, {1: "new", 2: "new"})


def test_a_file_that_comes_later_is_counted_with_the_whole_of_its_day() -> None:
    shop, first = Oracle("orders"), [change(1, 1), change(2, 1), "oops"]
    shop.run(DAY, put("orders", a=first))
    run = shop.run(DAY, put("orders", a=first, b=[change(2, 2, status="paid"), change(3, 1)]))
    assert counts(run) == {
        "rows_in": 5, "inserted": 1, "updated": 1, "unchanged": 1, "superseded": 1, "quarantined": 1,
    }  # fmt: skip
    assert shop.bronze == {DAY: 5}


# Changes


def test_a_correction_brings_an_older_version_back() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1)]))
    shop.run(DAYS[1], put("orders", DAYS[1], a=[change(1, 30, status="paid"), change(2, 30)]))
    run = shop.run(DAYS[1], put("orders", DAYS[1], a=[change(2, 30)]))
    assert told(run) == [("update_before", 1, "paid"), ("update_after", 1, "new")]
    assert statuses(shop) == {1: "new", 2: "new"}


def test_a_correction_makes_a_key_vanish() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1), change(2, 1)]))
    assert told(shop.run(DAY, put("orders", a=[change(2, 1)]))) == [("delete", 1, "new")]
    assert statuses(shop) == {2: "new"}


def test_a_correction_without_the_delete_brings_the_row_back() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1)]))
    shop.run(DAYS[1], put("orders", DAYS[1], a=[change(1, 30, op="d"), change(2, 30)]))
    assert statuses(shop) == {2: "new"}
    assert told(shop.run(DAYS[1], put("orders", DAYS[1], a=[change(2, 30)]))) == [("insert", 1, "new")]


def test_a_correction_of_what_was_overtaken_changes_nothing() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1)]))
    shop.run(DAYS[1], put("orders", DAYS[1], a=[change(1, 30, status="paid")]))
    assert told(shop.run(DAY, put("orders", a=[change(1, 1, status="cancelled")]))) == []


def test_runs_after_a_correction_are_counted_against_what_it_left() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 5, op="d"), change(2, 5)]))
    shop.run(DAY, put("orders", a=[change(2, 3)]))
    run = shop.run(DAYS[1], put("orders", DAYS[1], a=[change(1, 4), change(2, 4)]))
    assert counts(run) == {"rows_in": 2, "inserted": 1, "updated": 1}


def test_a_corrected_file_is_never_late() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, -49)], b=[change(2, -49)]))
    assert [rejected.reasons for rejected in shop.quarantine] == [("record.late",)] * 2
    shop.run(DAY, put("orders", a=[change(1, -49), change(3, -49)], b=[change(2, -49)]))
    assert statuses(shop) == {1: "new", 3: "new"}
    assert [rejected.source_file[-7:] for rejected in shop.quarantine] == ["b.jsonl"]


def test_of_changes_at_the_same_time_the_later_line_counts_and_then_the_later_file() -> None:
    paid, shipped, cancelled = (change(1, 1, status=status) for status in ("paid", "shipped", "cancelled"))
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[paid, shipped], b=[cancelled]))
    assert statuses(shop) == {1: "shipped"}
    shop.run(DAYS[1], put("orders", DAYS[1], a=["", cancelled]))
    assert statuses(shop) == {1: "cancelled"}


def test_a_day_that_comes_late_changes_only_what_is_not_overtaken() -> None:
    shop = Oracle("orders")
    shop.run(DAYS[1], put("orders", DAYS[1], a=[change(1, 30, status="paid"), change(2, 30, op="d")]))
    run = shop.run(DAY, put("orders", a=[change(1, 1), change(2, 1), change(3, 1)]))
    assert told(run) == [("insert", 3, "new")]
    assert counts(run) == {"rows_in": 3, "inserted": 1, "superseded": 2}


def test_the_feed_tells_rows_before_and_after() -> None:
    shop = Oracle("orders")
    shop.run(DAY, put("orders", a=[change(1, 1), change(2, 1), change(3, 1)]))
    before = dict(shop.silver)
    later = [change(1, 30, status="paid"), change(2, 30, op="d"), change(4, 30), change(3, 1)]
    run = ran(shop.run(DAYS[1], put("orders", DAYS[1], a=later)))
    assert run.feed == (
        Change("update_before", 1, before[1]),
        Change("update_after", 1, shop.silver[1]),
        Change("delete", 2, before[2]),
        Change("insert", 4, shop.silver[4]),
    )


def test_replaying_a_feed_refuses_what_does_not_fit() -> None:
    with pytest.raises(KeyError):
        replayed([[Change("delete", 1, {})]])
    with pytest.raises(AssertionError):
        replayed([[Change("insert", 1, {"x": 1}), Change("insert", 1, {"x": 2})]])
    with pytest.raises(AssertionError):
        replayed([[Change("insert", 1, {"x": 1}), Change("update_before", 1, {"x": 2})]])


@pytest.mark.parametrize("dataset", ["orders", "customers", "products"])
def test_the_feeds_of_all_runs_replayed_give_silver(dataset: str) -> None:
    recipe, shop = Recipe.of(0.3, 7, DIRT), Oracle(dataset)
    folders = {day: dict(folder_files(dataset, day, recipe)) for day in DAYS}
    for day in (DAYS[0], DAYS[2], DAYS[1], DAYS[3], DAYS[4]):
        shop.run(day, folders[day])
    for day in (DAYS[4], DAYS[1], DAYS[0]):
        shop.run(day, folders[day] | dict([corrected(dataset, day, recipe)]))
    assert replayed(run.feed for run in shop.runs) == shop.silver != {}
    kinds = {change.change for run in shop.runs if run.counts is None for change in run.feed}
    assert kinds == {"insert", "update_before", "update_after", "delete"}
