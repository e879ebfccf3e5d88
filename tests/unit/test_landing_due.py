"""Which files the ledger says are past their time, and how many of them are looked at."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from sqlalchemy import Index, create_engine, insert

from lakehouse import landing_versions
from lakehouse.contracts.load import Loaded
from lakehouse.landing_versions import Version
from lakehouse.ledger import batches, database, landing_gone, taken_files
from lakehouse.ledger.columns import add_missing
from lakehouse.ledger.landing_gone import NOTHING, Due, Passing, Span
from lakehouse.maintenance import landing_files
from lakehouse.maintenance.landing_files import NOT_HELD, UNCOUNTED, UNREAD, Clearing
from lakehouse.store import StoreUnreachable
from tests.unit.landing_world import FOLDER, NOW, OF, contract, due, took, version

HOUR = timedelta(hours=1)


def gone(found: Clearing) -> list[str]:
    return [one.version.id if one.version else f"no {one.file.etag}" for one in found.leaving]


# --- How many are looked at ---


@pytest.fixture
def pages(monkeypatch) -> list[Due | None]:
    """Seven files in pages of two, of which the first three stay; noted is behind which file each page was asked."""
    files = [due("A", key=f"{FOLDER}{n}", batch="b3" if n < 3 else "b1") for n in range(7)]
    asked: list[Due | None] = []

    def page(_dataset: str, _within: str, _span: Span, limit: int, after: Due | None, _passing: Passing) -> list[Due]:
        asked.append(after)
        first = files.index(after) + 1 if after else 0
        return files[first : first + limit]

    monkeypatch.setattr(landing_files, "MOST_FILES", 2)
    monkeypatch.setattr(landing_files, "table", lambda _: None)
    monkeypatch.setattr(
        landing_files, "_kept", lambda _, some, *__: {file: NOT_HELD for file in some if file.batch_id == "b3"}
    )
    monkeypatch.setattr(landing_gone, "due", page)
    monkeypatch.setattr(landing_gone, "staying", lambda *_: [])
    monkeypatch.setattr(landing_files, "loaded", lambda: Loaded({}, ()))
    monkeypatch.setattr(landing_files, "_refusal", lambda *_: "")
    monkeypatch.setattr(taken_files, "taken", lambda _, uris: {uri: [took("A")] for uri in uris})
    listed = [version("A", current=True, key=f"{FOLDER}{n}", name=str(n)) for n in range(7)]
    monkeypatch.setattr(landing_versions, "versions", lambda _: listed)
    return asked


def test_files_that_stay_keep_no_others_from_their_turn(pages):
    found = landing_files.clearing(contract(), Span(NOW), 9)
    assert (gone(found), found.later) == (["3", "4", "5", "6"], False)
    assert found.staying == {NOT_HELD: 3}
    assert [one.uri[-1] if one else "" for one in pages] == ["", "1", "3", "5"]


def test_no_more_go_than_are_asked_for_and_no_more_are_looked_at(pages):
    found = landing_files.clearing(contract(), Span(NOW), 2)
    assert (gone(found), found.later, len(pages)) == (["3", "4"], True, 3)


def test_the_ledger_is_looked_at_only_so_often(pages, monkeypatch):
    monkeypatch.setattr(landing_files, "MOST_LOOKS", 2)
    found = landing_files.clearing(contract(), Span(NOW), 9)
    assert (gone(found), found.later, len(pages)) == (["3"], True, 2)


def test_a_store_that_does_not_answer_is_not_waited_for_at_each_folder(pages, monkeypatch):
    asked: list[str] = []

    def hanging(folder: str) -> list[Version]:
        asked.append(folder)
        raise StoreUnreachable("no answer") from ReadTimeoutError(endpoint_url="http://s3")

    monkeypatch.setattr(landing_versions, "_MOST_HANGING", 1)
    monkeypatch.setattr(landing_versions, "versions", hanging)
    found = landing_files.clearing(contract(), Span(NOW), 9)
    assert found.staying == {NOT_HELD: 3, "no answer": 4}
    assert len(asked) == 1


def test_a_file_of_which_two_versions_stay_is_one_file(pages, monkeypatch):
    two = [due("A", batch="b3"), due("B", batch="b3")]
    monkeypatch.setattr(landing_gone, "due", lambda *_: two)
    monkeypatch.setattr(landing_files, "MOST_FILES", 9)
    assert landing_files.clearing(contract(), Span(NOW), 9).staying == {NOT_HELD: 1}
    monkeypatch.setattr(landing_files, "_refusal", lambda *_: "a reason")
    assert landing_files.clearing(contract(), Span(NOW), 9).staying == {"a reason": 1}


def test_where_nothing_may_go_no_folder_is_listed(pages, monkeypatch):
    monkeypatch.setattr(landing_files, "_refusal", lambda *_: "a reason")
    assert landing_files.clearing(contract(), Span(NOW)) == Clearing(staying=Counter({"a reason": 2}), later=True)
    assert len(pages) == 1


# --- What the ledger says ---


class Ledger:
    """The columns that decide, in a database of the test's own."""

    def __init__(self) -> None:
        self.engine = create_engine("sqlite://")
        with self.engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE inputs (batch_id, uri, etag, bytes, dataset, malformed)")
            connection.exec_driver_sql("CREATE TABLE landing_gone (dataset, batch_id, uri, version, state)")
            of = "published_at, intended_at, interval_start, interval_end"
            connection.exec_driver_sql(f"CREATE TABLE batches (batch_id, dataset, state, {of})")

    def take(self, batch: str, hours: int, *files: str, state: str = "published", **more: object) -> None:
        """A batch of so many hours ago that took files, each written as its name and its ETag."""
        of = {"interval_start": OF.start, "interval_end": OF.end, "published_at": NOW - hours * HOUR}
        of["intended_at"] = of["published_at"]
        given = {"batch_id": batch, "dataset": "bronze.events"}
        with self.engine.begin() as connection:
            connection.execute(insert(database.batches).values(state=state, **given, **of))
            for name, etag in (file.split() for file in files):
                uri = f"s3://landing/{name}"
                connection.execute(insert(database.inputs).values(uri=uri, etag=etag, bytes=3, **given, **more))

    def went(self, batch: str, name: str, state: str = "done") -> None:
        row = {"dataset": "bronze.events", "batch_id": batch, "uri": f"s3://landing/{name}", "version": "v"}
        with self.engine.begin() as connection:
            connection.execute(insert(database.landing_gone).values(state=state, **row))

    def due(
        self,
        hours: int = 1,
        limit: int = 99,
        within: str = "s3://landing/",
        passing: Passing = NOTHING,
        **span: object,
    ) -> list[Due]:
        asked = Span(NOW - hours * HOUR)._replace(**span)
        found: list[Due] = []
        while page := landing_gone.due("bronze.events", within, asked, limit, found[-1] if found else None, passing):
            found += page
        return found


@pytest.fixture
def ledger(monkeypatch) -> Ledger:
    found = Ledger()
    for module in (landing_gone, taken_files):
        monkeypatch.setattr(module, "engine", lambda: found.engine)
    monkeypatch.setattr(landing_gone, "Interval", lambda *_: OF)  # this database knows no zones
    return found


def named(files: list[Due]) -> list[str]:
    return [f"{file.batch_id} {file.uri.removeprefix('s3://landing/')} {file.etag}" for file in files]


@pytest.mark.parametrize("limit", [99, 1, 2])
def test_files_are_due_by_the_newest_batch_that_took_their_bytes_oldest_first(ledger, limit):
    ledger.take("b3", 3, "c C", "a A", "d D")
    ledger.take("b2", 2, "a B", "c C")
    ledger.take("b1", 0, "d D")
    ledger.take("b9", 9, "z Z", state="undone")
    assert named(ledger.due(limit=limit)) == ["b3 a A", "b2 a B", "b2 c C"]
    assert named(ledger.due(hours=0, limit=limit)) == ["b3 a A", "b2 a B", "b2 c C", "b1 d D"]
    assert named(ledger.due(limit=limit, since=NOW - 2 * HOUR)) == ["b2 a B", "b2 c C"]
    assert ledger.due(within="s3://elsewhere/") == []


def test_files_that_went_are_due_no_more_and_what_was_begun_only_where_it_is_asked_for(ledger):
    ledger.take("b1", 3, "a A", "b B", "c C", "d D")
    ledger.take("b2", 2, "a B")
    ledger.went("b1", "a")
    ledger.went("b1", "b", "absent")
    ledger.went("b1", "c", "begun")
    assert named(ledger.due()) == ["b1 c C", "b1 d D", "b2 a B"]
    assert named(ledger.due(begun=False)) == ["b1 d D", "b2 a B"]


def test_the_ledger_knows_how_much_of_a_file_could_not_be_read_unless_an_earlier_version_took_it(ledger):
    ledger.take("b1", 5, "a A")
    ledger.take("b2", 4, "b B", malformed=0)
    ledger.take("b3", 3, "c C", malformed=2)
    assert [file.malformed for file in ledger.due()] == [None, 0, 2]


def test_files_that_stay_by_what_the_ledger_knows_are_counted_and_keep_no_others_from_their_turn(ledger, monkeypatch):
    ledger.take("b1", 9, "mine/a A", "mine/b B", "theirs/c C", "theirs/d D")  # by a version that did not count
    ledger.take("b2", 8, "mine/e E", malformed=2)
    ledger.take("b3", 7, "mine/e F", malformed=1)
    ledger.take("b4", 6, "mine/f F", "theirs/g G", malformed=0)
    ledger.take("b5", 5, "mine/h H", malformed=0)
    ledger.take("b6", 0, "mine/i I")
    ledger.went("b1", "mine/b")
    monkeypatch.setattr(landing_gone, "Interval", lambda *_: OF)
    passing = Passing(("s3://landing/theirs/", "s3://landing/other/"), unread=True)
    assert named(ledger.due(passing=passing)) == ["b4 mine/f F", "b5 mine/h H"]
    assert sorted(landing_gone.staying("bronze.events", "s3://landing/", Span(NOW - HOUR), passing)) == [
        ("", False, 1),
        ("", True, 1),  # one file, in two versions
        ("s3://landing/theirs/", False, 2),
        ("s3://landing/theirs/", True, 1),
    ]
    only_others = Passing(("s3://landing/theirs/",))
    assert len(ledger.due(passing=only_others)) == 5
    assert {one.under for one in landing_gone.staying("bronze.events", "", Span(NOW), only_others)} == {
        "s3://landing/theirs/"
    }
    assert landing_gone.staying("bronze.events", "", Span(NOW), NOTHING) == []


@pytest.mark.parametrize(
    ("source", "told", "goes"),
    [({"delete_after": "1d"}, {UNCOUNTED: 3, UNREAD: 1}, "1"), ({"archive_after": "1d"}, {}, "23451")],
)
def test_very_many_files_that_are_never_deleted_keep_no_other_from_its_turn(ledger, monkeypatch, source, told, goes):
    """More of them than are ever looked at."""
    ledger.take("b1", 9, *(f"{FOLDER}{n} A" for n in (2, 3, 4)))
    ledger.take("b2", 8, f"{FOLDER}5 A", malformed=1)
    ledger.take("b3", 7, f"{FOLDER}1 A", malformed=0)
    monkeypatch.setattr(landing_files, "MOST_FILES", 1)
    monkeypatch.setattr(landing_files, "MOST_LOOKS", 2 if told else 9)
    monkeypatch.setattr(landing_files, "loaded", lambda: Loaded({}, ()))
    monkeypatch.setattr(landing_files, "_refusal", lambda *_: "")
    monkeypatch.setattr(landing_files, "table", lambda _: "main")
    monkeypatch.setattr(landing_files, "held_by", lambda _, ids: ids)
    monkeypatch.setattr(batches, "by_id", lambda ids: ids)
    monkeypatch.setattr(taken_files, "taken", lambda _, uris: {uri: [took("A")] for uri in uris})
    listed = [version("A", current=True, key=f"{FOLDER}{n}", name=str(n)) for n in range(7)]
    monkeypatch.setattr(landing_versions, "versions", lambda _: listed)
    found = landing_files.clearing(contract(**source), Span(NOW), 99)
    assert ("".join(gone(found)), dict(found.staying), found.later) == (goes, told, False)


def test_the_ledger_knows_from_which_folders_a_dataset_took_files(ledger):
    ledger.take("b1", 3, "a/x A")
    ledger.take("b2", 3, "b/x A", state="undone")
    ledger.take("b3", 3, "c/x A", state="discarded")
    for dataset in ("bronze.events", ""):
        known = [name for name in "abcd" if taken_files.took_from(f"s3://landing/{name}/", dataset)]
        assert known == ["a", "b"]
    assert not taken_files.took_from("s3://landing/a/", "bronze.others")


def test_the_ledger_knows_which_files_only_undone_batches_took(ledger):
    ledger.take("b1", 3, "a/x A", "a/y A", "b/x A", state="undone")
    ledger.take("b2", 2, "a/x B")
    ledger.take("b3", 1, "a/z A", state="discarded")
    assert taken_files.undone_under("bronze.events", "s3://landing/a/") == ["s3://landing/a/y"]
    assert taken_files.undone_under("bronze.others", "s3://landing/a/") == []


def test_the_ledger_knows_what_was_taken_from_a_folder_and_by_a_batch(ledger):
    ledger.take("b1", 3, "a/x A", "b/x A", state="undone")
    ledger.take("b2", 2, "a/x B", "a/y A")
    assert [(one.batch_id, one.uri, one.etag) for one in taken_files.taken_under("s3://landing/a/")] == [
        ("b2", "s3://landing/a/x", "B"),
        ("b2", "s3://landing/a/y", "A"),
    ]
    assert {one.uri for one in taken_files.taken_by(["b1"])} == {"s3://landing/a/x", "s3://landing/b/x"}
    assert taken_files.taken_by([]) == []


def test_a_ledger_of_an_earlier_version_gains_its_indexes(monkeypatch):
    made: list[str] = []
    monkeypatch.setattr(Index, "create", lambda one, _: made.append(one.name))
    columns = [(table.name, column.name) for table in database.metadata.tables.values() for column in table.columns]
    there = {one.name for table in database.metadata.tables.values() for one in table.indexes} - {"batches_by_publish"}

    def answer(statement: object) -> Any:
        return SimpleNamespace(scalars=lambda: there) if "pg_indexes" in str(statement) else columns

    add_missing(SimpleNamespace(execute=answer), database.metadata)
    assert made == ["batches_by_publish"]
