"""Which files the ledger says are past their time, and how many of them are looked at."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Index, create_engine, insert

from lakehouse import landing_versions
from lakehouse.contracts.load import Loaded
from lakehouse.ledger import database, landing_gone, taken_files
from lakehouse.ledger.columns import add_missing
from lakehouse.ledger.landing_gone import Due, Span
from lakehouse.maintenance import landing_files
from lakehouse.maintenance.landing_files import NOT_HELD, Clearing
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

    def page(_dataset: str, _within: str, _span: Span, limit: int, after: Due | None) -> list[Due]:
        asked.append(after)
        first = files.index(after) + 1 if after else 0
        return files[first : first + limit]

    monkeypatch.setattr(landing_files, "MOST_FILES", 2)
    monkeypatch.setattr(landing_files, "table", lambda _: None)
    monkeypatch.setattr(
        landing_files, "_kept", lambda _, some, *__: {file: NOT_HELD for file in some if file.batch_id == "b3"}
    )
    monkeypatch.setattr(landing_gone, "due", page)
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
            of = "published_at, interval_start, interval_end"
            connection.exec_driver_sql(f"CREATE TABLE batches (batch_id, dataset, state, {of})")

    def take(self, batch: str, hours: int, *files: str, state: str = "published", **more: object) -> None:
        """A batch of so many hours ago that took files, each written as its name and its ETag."""
        of = {"interval_start": OF.start, "interval_end": OF.end, "published_at": NOW - hours * HOUR}
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

    def due(self, hours: int = 1, limit: int = 99, within: str = "s3://landing/", **span: object) -> list[Due]:
        asked = Span(NOW - hours * HOUR)._replace(**span)
        found: list[Due] = []
        while page := landing_gone.due("bronze.events", within, asked, limit, found[-1] if found else None):
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


def test_the_ledger_knows_from_which_folders_a_dataset_took_files(ledger):
    ledger.take("b1", 3, "a/x A")
    ledger.take("b2", 3, "b/x A", state="undone")
    ledger.take("b3", 3, "c/x A", state="discarded")
    known = [name for name in "abcd" if taken_files.took_from("bronze.events", f"s3://landing/{name}/")]
    assert known == ["a", "b"]
    assert not taken_files.took_from("bronze.others", "s3://landing/a/")


def test_a_ledger_of_an_earlier_version_gains_its_indexes(monkeypatch):
    made: list[str] = []
    monkeypatch.setattr(Index, "create", lambda one, _: made.append(one.name))
    columns = [(table.name, column.name) for table in database.metadata.tables.values() for column in table.columns]
    there = {one.name for table in database.metadata.tables.values() for one in table.indexes} - {"batches_by_publish"}

    def answer(statement: object) -> Any:
        return SimpleNamespace(scalars=lambda: there) if "pg_indexes" in str(statement) else columns

    add_missing(SimpleNamespace(execute=answer), database.metadata)
    assert made == ["batches_by_publish"]
