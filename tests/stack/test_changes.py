"""Changes of single rows, one story each, in which a row would be lost or doubled if one thing were forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from lakehouse.catalog import ref_snapshot
from lakehouse.contracts.gates import Gate
from lakehouse.health.entries import live_entries
from lakehouse.ledger import gates
from lakehouse.naming import feed_table
from lakehouse.query import run_sql
from lakehouse.steps import GateFailed
from tests.stack.foreign import DAY, Source, lines, tasks_of
from tests.stack.foreign import task as one
from tests.stack.tables import loaded

NEXT = DAY + timedelta(1)


@pytest.fixture(params=["merge_on_read", "copy_on_write"])
def tasks(request, stack, tmp_path) -> Iterator[Source]:
    opened = tasks_of(tmp_path, request.param)
    yield opened
    opened.shop.close()


def feed(source: Source) -> list[tuple[Any, ...]]:
    query = (
        f"SELECT id, name, due, _change FROM {feed_table(source.shop.silver)} ORDER BY _changed_at, id, _change DESC"
    )
    return run_sql(query)[1]


def main_of(source: Source) -> tuple[dict[str, int], set[str]]:
    """What the summary of main's newest version counts, and the data files in it."""
    found = loaded(source.shop.silver)
    snapshot = found.snapshot_by_id(ref_snapshot(found))
    entries = [entry for manifest in snapshot.manifests(found.io) for entry in live_entries(manifest, found.io)]
    counted = {name: int(n) for name, n in snapshot.summary.additional_properties.items() if n.isdecimal()}
    return counted, {entry.path for entry in entries if entry.is_data}


# By how updates are written, what one update of a day of twenty rows adds: the row and a mark that the old one is gone,
# or the day's file anew.
ADDED = {
    "merge_on_read": {"added-records": 1, "added-position-deletes": 1, "added-delete-files": 1},
    "copy_on_write": {"added-records": 20, "deleted-records": 20, "deleted-data-files": 1},
}


def test_of_equal_rows_and_a_changed_one_the_changed_one_alone_is_written(tasks, spark):
    rows = [one(n, 1, due=f"2026-01-0{5 + n // 20}") for n in range(60)]
    tasks.run(spark, {"a.json": lines(*rows)})
    _, files = main_of(tasks)
    rows[30] |= {"at": 2, "name": "b"}
    counts = tasks.run(spark, {"b.json": lines(*rows)}, NEXT)
    assert (counts["updated"], counts["unchanged"]) == (1, 59)
    counted, now = main_of(tasks)
    assert counted["changed-partition-count"] == 1
    assert {path.rsplit("/", 2)[1] for path in files ^ now} == {"due=2026-01-06"}, "other days have the files they had"
    changed = {"added-records", "deleted-records", "added-position-deletes", "added-delete-files", "deleted-data-files"}
    mode = tasks.shop.contract(tasks.shop.silver).update_mode
    assert {name: counted[name] for name in changed & counted.keys()} == ADDED[mode]

    before = tasks.shop.state()
    counts = tasks.run(spark, {"c.json": lines(*reversed(rows))}, NEXT + timedelta(1))
    assert counts == {**dict.fromkeys(counts, 0), "rows_in": 60, "unchanged": 60}
    written = {name for name, (snapshot, _) in tasks.shop.state().items() if snapshot != before[name][0]}
    assert written == {tasks.shop.bronze}


def test_rows_without_a_partition_value_are_updated_and_deleted(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1), one(2, 1), one(3, 1, due="2026-01-05"))})
    counts = tasks.run(spark, {"b.json": lines(one(1, 2, "b"), one(2, 2, gone="yes"))}, NEXT)
    assert (counts["updated"], counts["deleted"]) == (1, 1)
    assert tasks.rows("id, name, due") == [(1, "b", None), (3, "a", date(2026, 1, 5))]


def test_a_row_that_moves_to_another_partition_is_there_once(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1, due="2026-01-05"), one(2, 1), one(3, 1, due="9999-12-31"))})
    changed = lines(one(1, 2, due="2026-03-01"), one(2, 2, due="2026-01-05"), one(3, 2, "b", due=None))
    tasks.run(spark, {"b.json": changed}, NEXT)
    assert tasks.rows("id, name, due") == [(1, "a", date(2026, 3, 1)), (2, "a", date(2026, 1, 5)), (3, "b", None)]


def test_a_row_that_a_correction_drops_stays_where_another_file_holds_it(tasks, spark):
    """Word for word in two files: it is the other file's now, and a later correction of that one takes it away."""
    both, rest = one(1, 1, due="2026-01-05"), one(2, 1, due="2026-01-05")
    tasks.run(spark, {"a.json": lines(both, rest), "b.json": lines(rest | {"id": 3}, both)})
    assert [row[0] for row in tasks.rows("id")] == [1, 2, 3]
    # Of two records alike the one further down its file counts: b.json's.
    tasks.run(spark, {"b.json": lines(rest | {"id": 3})})
    assert tasks.rows("id, _source_file[-6:]")[0] == (1, "a.json")
    before = len(feed(tasks))
    tasks.run(spark, {"a.json": lines(rest)})
    assert [row[0] for row in tasks.rows("id")] == [2, 3]
    assert feed(tasks)[before:] == [(1, "a", date(2026, 1, 5), "delete")]


def with_unique_names(source: Source) -> None:
    """The contract gains a gate; its version stays, as no row changes by it."""
    (file,) = (source.shop.folder / "silver").glob("*.yaml")
    file.write_text(f"{file.read_text()}gates: [{{unique: [name]}}]\n")


def test_a_gate_that_the_table_has_never_passed_looks_at_every_row(tasks, spark):
    tasks.run(spark, {"a.json": lines(one(1, 1), one(2, 1))})
    with_unique_names(tasks)
    with pytest.raises(GateFailed, match=r"unique\(name\): 1 values"):
        tasks.run(spark, {"b.json": lines(one(3, 1, "c"))}, NEXT)


def test_a_gate_that_the_table_has_passed_still_finds_what_a_batch_repeats(tasks, spark):
    with_unique_names(tasks)
    tasks.run(spark, {"a.json": lines(one(1, 1), one(2, 1, "b", due="2026-01-05"))})
    main, _ = tasks.shop.state()[tasks.shop.silver]
    assert Gate(unique=("name",)).definition in gates.passed(main or 0)
    with pytest.raises(GateFailed, match=r"unique\(name\): 1 values"):
        tasks.run(spark, {"b.json": lines(one(3, 1, "b", due="2026-01-07"))}, NEXT)
    assert [row[0] for row in tasks.rows("id")] == [1, 2]
