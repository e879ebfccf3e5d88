"""How landing files go: noted, copied and removed in this order; and that what went is awaited no more."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse import landing, landing_versions
from lakehouse.backup import rows
from lakehouse.batch import InputFile
from lakehouse.landing_bucket import LandingError, Listing, Object
from lakehouse.ledger import batches, landing_gone, leases
from lakehouse.ledger.landing_gone import Gone
from lakehouse.maintenance import carried_out
from lakehouse.maintenance import clearing as acting
from lakehouse.maintenance.acts import Tools
from lakehouse.maintenance.landing_files import Clearing, Leaving
from lakehouse.manifest import Listed, Manifest
from lakehouse.plan import Attempt
from lakehouse.rollback.planned import files_lost
from tests.unit.landing_world import DAY, FOLDER, KEY, NOW, OF, clearing_step, contract, due, version

# --- How they go ---


class Store:
    """What is done to store and ledger, in its order."""

    def __init__(self, monkeypatch, found: tuple[Leaving, ...]) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.fails = ""
        self.there: set[str] = set()
        monkeypatch.setattr(acting, "_AT_ONCE", 1)
        monkeypatch.setattr(acting, "clearing", lambda *_: Clearing(found))
        monkeypatch.setattr(landing_versions, "copy", lambda one, to: self.act("copy", one.id, to))
        monkeypatch.setattr(landing_versions, "remove", lambda _, one: self.act("remove", one))
        monkeypatch.setattr(landing_versions, "is_there", lambda key, one="": (one or key) in self.there)
        monkeypatch.setattr(landing_gone, "note", lambda rows: [self.act(row.state, row.version) for row in rows])
        monkeypatch.setattr(landing_gone, "forget", lambda rows: [self.act("forgot", row.version) for row in rows])

    def act(self, what: str, *of: str) -> None:
        if what == self.fails:
            raise OSError(what)
        self.done.append((what, *of))

    @property
    def removed(self) -> list[tuple[Any, ...]]:
        return [one for one in self.done if one[0] == "remove"]


ONE_CORRECTED = (
    Leaving(due("A"), version("A")),
    Leaving(due("B", batch="b2"), version("B", current=True)),
    Leaving(due("C", key=f"{FOLDER}c"), version("C", key=f"{FOLDER}c", current=True)),
    Leaving(due("D", key=f"{FOLDER}d"), version("D", key=f"{FOLDER}d")),
    Leaving(due("E", key=f"{FOLDER}e"), None),
)
NAMES = ("v-A", "v-B", "v-C", "v-D")


def test_each_is_noted_copied_and_removed_and_what_is_current_goes_last(monkeypatch):
    store = Store(monkeypatch, ONE_CORRECTED)
    answer = acting.clear(contract(archive_after="1d"), clearing_step(archive=True), lambda: store.act("ours"))
    to = "_archive/bronze.events/b1/events/2026-01-01"
    assert store.done == [
        ("ours",),
        ("absent", ""),
        *(("begun", name) for name in NAMES),
        ("copy", "v-A", f"{to}/a.jsonl"),
        ("copy", "v-B", f"{to.replace('b1', 'b2')}/a.jsonl"),
        ("copy", "v-C", f"{to}/c"),
        ("copy", "v-D", f"{to}/d"),
        ("ours",),
        *(("remove", name) for name in ("v-A", "v-D", "v-B", "v-C")),
        *(("done", name) for name in NAMES),
    ]
    assert answer.counters == {"files": 4, "bytes": 12, "absent": 1}


@pytest.mark.parametrize("fails", ["begun", "copy"])
def test_nothing_is_removed_that_was_not_noted_and_copied(monkeypatch, fails):
    store = Store(monkeypatch, ONE_CORRECTED)
    store.fails = fails
    with pytest.raises(OSError, match=fails):
        acting.clear(contract(archive_after="1d"), clearing_step(archive=True), lambda: None)
    assert store.removed == []


def test_nothing_is_removed_once_the_lease_is_lost(monkeypatch):
    store, asked = Store(monkeypatch, ONE_CORRECTED), iter([None, OSError("lost")])

    def ours() -> None:
        if error := next(asked):
            raise error

    with pytest.raises(OSError, match="lost"):
        acting.clear(contract(delete_after="1d"), clearing_step(), ours)
    assert store.removed == []


def test_no_file_goes_where_the_contract_keeps_them_by_now(monkeypatch):
    store = Store(monkeypatch, ONE_CORRECTED)
    acting.clear(contract(), clearing_step(taken_before=None), lambda: None)
    assert store.done == []


def test_what_was_cut_off_is_gone_or_as_due_as_before(monkeypatch):
    store = Store(monkeypatch, ())
    row = Gone("bronze.events", "b1", f"s3://landing/{KEY}", "v1", "A", 3, "", "begun")
    kept_in = "s3://landing/_archive/x"
    cut_off = [row, *(row._replace(version=name, archived_to=kept_in) for name in ("v2", "v3"))]
    monkeypatch.setattr(landing_gone, "begun", lambda _: cut_off)
    store.there = {"v2", "_archive/x"}
    acting.settle_begun("bronze.events")
    assert store.done == [("done", "v1"), ("done", "v3"), ("forgot", "v2")]
    store.done, store.there = [], set()
    acting.settle_begun("bronze.events")
    assert store.done == [("done", "v1"), ("absent", "v2"), ("absent", "v3")], "where there is no copy, it was not us"


def test_the_leases_of_all_who_read_the_files_are_held_while_they_go(monkeypatch):
    held: list[str] = []
    monkeypatch.setattr(carried_out, "shared_with", lambda _: ["bronze.others"])
    monkeypatch.setattr(leases, "acquire", lambda dataset, *_, **__: held.append(dataset) or True)
    monkeypatch.setattr(leases, "release", lambda dataset, *_: held.remove(dataset))
    tools = Tools("bronze.events", Attempt("a run", 1), print, 0)
    with carried_out._alone(contract(), clearing_step(), tools):
        assert held == ["bronze.events", "bronze.others"]
    with carried_out._alone(contract(), clearing_step(operation="rewrite_manifests"), tools):
        assert held == ["bronze.events"]
    assert held == []


def test_what_was_cut_off_is_settled_before_anything_else_is_done(monkeypatch):
    settled: list[str] = []
    monkeypatch.setattr(carried_out, "_keep", lambda *_: None)
    monkeypatch.setattr(carried_out, "drop_old_branches", lambda *_: [])
    monkeypatch.setattr(carried_out, "settle_begun", settled.append)
    assert list(carried_out._tidy(contract(), lambda: NOW)) == []
    assert settled == ["bronze.events"]


def test_a_rollback_misses_only_files_that_are_in_force(monkeypatch):
    row = Gone("bronze.events", "b1", f"s3://landing/{KEY}", "v1", "A", 3, "", "done")
    monkeypatch.setattr(batches, "taken", lambda *_: {row.uri: ["B", "A"]})
    assert files_lost("bronze.events", [row, row._replace(etag="B")]) == [row._replace(etag="B")]


def test_what_went_comes_along_in_a_backup():
    assert "landing_gone" in {one.name for one in rows.kept()}


# --- The archive ---


class Bucket:
    """Heads of objects by key, and what is copied."""

    def __init__(self, **heads: tuple[int, str]) -> None:
        self.heads = dict(heads)
        self.copies: list[dict[str, str]] = []
        self.becomes = (3, "A")

    def head_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        from botocore.exceptions import ClientError

        if Key not in self.heads:
            raise ClientError({"ResponseMetadata": {"HTTPStatusCode": 404}}, "HeadObject")
        return {"ContentLength": self.heads[Key][0], "ETag": f'"{self.heads[Key][1]}"'}

    def copy(self, source: dict[str, str], _bucket: str, to: str, **_: Any) -> None:
        self.copies.append(source)
        self.heads[to] = self.becomes


@pytest.mark.parametrize(
    ("etag", "there", "copied"),
    [
        ("A", None, True),
        ("A", (3, "A"), False),
        ("A-2", (3, "B-3"), True),  # it may be the same bytes in other parts: a copy makes sure
    ],
)
def test_a_file_is_copied_unless_its_very_bytes_are_there(monkeypatch, etag, there, copied):
    bucket = Bucket(**({"to": there} if there else {}))
    monkeypatch.setattr(landing_versions, "_own", lambda: bucket)
    landing_versions.copy(version(etag, name="v7"), "to")
    assert bucket.copies == ([{"Bucket": "landing", "Key": KEY, "VersionId": "v7"}] if copied else [])


@pytest.mark.parametrize("there", [(4, "A"), (3, "B")])
def test_other_bytes_in_the_archive_are_never_written_over(monkeypatch, there):
    bucket = Bucket(to=there)
    monkeypatch.setattr(landing_versions, "_own", lambda: bucket)
    with pytest.raises(LandingError, match=f"^landing/to is not what landing/{KEY} was; move it"):
        landing_versions.copy(version("A"), "to")
    assert bucket.copies == []


def test_a_copy_is_looked_at(monkeypatch):
    bucket = Bucket()
    bucket.becomes = (2, "A")
    monkeypatch.setattr(landing_versions, "_own", lambda: bucket)
    with pytest.raises(LandingError, match="the file stays where it is"):
        landing_versions.copy(version("A"), "to")


# --- Waiting, and running again ---


def there(name: str, etag: str = "A", size: int = 3) -> Object:
    return Object(FOLDER + name, etag, size, NOW)


@pytest.mark.parametrize(
    ("listed", "went", "awaited"),
    [
        ({"name": "b"}, [], True),
        ({"name": "b"}, [there("b")], False),
        ({"name": "b", "size": 3}, [there("b")], False),
        ({"name": "b", "size": 4}, [there("b")], True),  # a correction that is announced, and not there yet
        ({"name": "b", "size": 4}, [there("b"), there("b", size=4)], False),
        ({"name": "a", "size": 4}, [there("a", size=4)], True),  # what lies there counts, not what lay there
    ],
)
def test_a_file_that_went_as_its_manifest_lists_it_is_not_awaited(listed, went, awaited):
    one = Listed.model_validate(listed)
    found = Manifest(f"{FOLDER}m.json", {f"{FOLDER}a": Listed(name="a"), FOLDER + one.name: one})
    assert (found.awaited([there("a")], went) is not None) == awaited


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """The addresses that the ledger is asked for, of which a file went from each with events in it."""
    found: list[str] = []

    def under(address: str) -> list[Gone]:
        found.append(address)
        row = Gone("bronze.events", "b1", f"{address}a.jsonl", "v1", "A", 3, "", "done", NOW)
        return [row] if "events" in address else []

    monkeypatch.setattr(landing_gone, "under", under)
    return found


@pytest.mark.parametrize(
    ("objects", "folder", "told", "asks"),
    [
        ([there("a")], FOLDER, None, 0),
        ([], FOLDER, None, 1),
        ([], "others/", "a first file in landing/others/", 1),
    ],
)
def test_an_emptied_folder_is_quiet_and_the_ledger_is_asked_in_need_only(
    monkeypatch, asked, objects, folder, told, asks
):
    listing = Listing(NOW + DAY, objects)
    monkeypatch.setattr(landing, "listed", lambda _: listing)
    assert landing.awaited(folder, contract(ready={"quiet": "1h"}).source.ready, OF.end) == told
    assert len(asked) == asks


def test_a_dataset_that_comes_later_does_not_take_an_emptied_folder_for_a_day_without_data(monkeypatch, asked):
    monkeypatch.setattr(batches, "taken", lambda *_: {f"s3://landing/{KEY}": ["A"]})
    landing.check_that_none_is_missed(contract(), OF.start, [])
    monkeypatch.setattr(batches, "taken", lambda *_: {})
    with pytest.raises(LandingError, match=r"^1 files went from landing/events/2026-01-01/ before bronze.events took"):
        landing.check_that_none_is_missed(contract(), OF.start, [])
    back = InputFile(uri=f"s3://landing/{KEY}", etag="A", bytes=3)
    landing.check_that_none_is_missed(contract(), OF.start, [back])
