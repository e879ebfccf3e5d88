"""How landing files go: noted, copied and removed in this order; and that what went is awaited no more."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from lakehouse import landing, landing_cleared, landing_versions, rebuild
from lakehouse.backup import objects, rows
from lakehouse.jobs import IngestJob
from lakehouse.landing_bucket import LandingError, Listing, Object
from lakehouse.landing_versions import Version
from lakehouse.ledger import landing_gone, taken_files
from lakehouse.ledger.landing_gone import Gone, Span
from lakehouse.ledger.taken_files import Known
from lakehouse.maintenance import carried_out
from lakehouse.maintenance import clearing as acting
from lakehouse.maintenance.landing_files import Clearing
from lakehouse.maintenance.landing_folders import Leaving
from lakehouse.maintenance.landing_steps import went
from lakehouse.rebuild import CannotRebuild
from lakehouse.rollback import planned
from lakehouse.rollback.planned import files_lost
from lakehouse.store import StoreUnreachable
from tests.unit.landing_world import FOLDER, KEY, NOW, OF, clearing_step, contract, due, took, version

# --- How they go ---


class Store:
    """What is done to store and ledger, in its order."""

    def __init__(self, monkeypatch, found: tuple[Leaving, ...]) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.told: list[str] = []
        self.fails = ""  # all that is done so
        self.refuses: set[tuple[str, ...]] = set()  # what is done so of these
        self.there: set[str] = set()
        monkeypatch.setattr(acting, "_AT_ONCE", 1)
        monkeypatch.setattr(acting, "clearing", lambda *_: Clearing(found))
        monkeypatch.setattr(landing_versions, "copy", lambda one, to: self.act("copy", one.id, to))
        monkeypatch.setattr(landing_versions, "remove", lambda _, one: self.act("remove", one))
        monkeypatch.setattr(landing_versions, "mark", lambda key, told: self.act("mark", key) or self.told.append(told))
        monkeypatch.setattr(landing_versions, "is_there", lambda key, one="": self.look(one or key))
        monkeypatch.setattr(landing_gone, "note", lambda rows: [self.act(row.state, row.version) for row in rows])
        monkeypatch.setattr(landing_gone, "forget", lambda rows: [self.act("forgot", row.version) for row in rows])

    def act(self, what: str, *of: str) -> None:
        if what == self.fails:
            raise OSError(what)
        if (what, of[0] if of else "") in self.refuses:
            raise StoreUnreachable(f"the object store refuses {of[0]}. Look at it")
        self.done.append((what, *of))

    def look(self, name: str) -> bool:
        self.act("look", name)
        self.done.pop()
        return name in self.there

    @property
    def ended(self) -> list[tuple[Any, ...]]:
        return [one for one in self.done if one[0] in ("done", "absent", "forgot")]

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
        ("mark", f"{FOLDER}_CLEARED"),
        ("ours",),
        *(("remove", name) for name in ("v-A", "v-D", "v-B", "v-C")),
        *(("done", name) for name in ("v-A", "v-D", "v-B", "v-C")),
    ]
    assert answer.counters == {"files": 3, "bytes": 12, "absent": 1, "failed": 0}, "of one file two versions went"
    assert [uri.rpartition("/")[2] for uri in answer.files] == ["a.jsonl", "d", "c"]
    told = json.loads(store.told[0])
    assert (told.keys(), told["dataset"], told["since"][:2]) == ({"dataset", "since"}, "bronze.events", "20"), (
        "later files of the folder may go in another way"
    )


@pytest.mark.parametrize(
    ("refused", "removed", "failed"),
    [
        ({("copy", "v-C")}, ("v-A", "v-D", "v-B"), 1),
        ({("copy", "v-A")}, ("v-D", "v-C"), 1),  # B stays as well: nothing may come forth from beneath it
        ({("remove", "v-A")}, ("v-D", "v-C"), 1),
        ({("remove", "v-B")}, ("v-A", "v-D", "v-C"), 1),
        ({("mark", f"{FOLDER}_CLEARED")}, ("v-D",), 2),  # no file goes from a folder that does not say so
    ],
)
def test_a_file_for_which_the_store_fails_stays_whole_and_the_others_go(monkeypatch, refused, removed, failed):
    store = Store(monkeypatch, ONE_CORRECTED)
    store.refuses = refused
    answer = acting.clear(contract(archive_after="1d"), clearing_step(archive=True), lambda: None)
    assert [name for _, name in store.removed] == list(removed)
    assert [one[1] for one in store.done if one[0] == "done"] == list(removed)
    files = len({name.replace("B", "A") for name in removed})  # both are of one file
    assert (answer.counters["files"], answer.counters["failed"]) == (files, failed)
    ((_, what),) = refused
    assert answer.failure == f"the object store refuses {what}"
    told = f"{files} files went, {3 * len(removed)} bytes, {failed} failed and stay: {answer.failure}"
    assert went(answer) == told


def test_only_folders_that_current_files_go_from_are_marked(monkeypatch):
    store = Store(monkeypatch, (Leaving(due("A"), version("A")),))
    acting.clear(contract(delete_after="1d"), clearing_step(), lambda: None)
    assert (store.told, store.removed) == ([], [("remove", "v-A")])


def test_a_version_that_is_found_twice_goes_once(monkeypatch):
    store = Store(monkeypatch, ONE_CORRECTED[:1] * 2)
    acting.clear(contract(delete_after="1d"), clearing_step(), lambda: None)
    assert store.done == [("begun", "v-A"), ("remove", "v-A"), ("done", "v-A")]


def test_a_store_that_is_away_ends_the_step(monkeypatch):
    store = Store(monkeypatch, ONE_CORRECTED)

    def away(*_: str) -> None:
        raise StoreUnreachable("no answer") from EndpointConnectionError(endpoint_url="http://s3")

    monkeypatch.setattr(landing_versions, "copy", away)
    with pytest.raises(StoreUnreachable, match="no answer"):
        acting.clear(contract(archive_after="1d"), clearing_step(archive=True), lambda: None)
    assert store.removed == []


def hang(*_: str) -> None:
    raise StoreUnreachable("no answer. Wait") from ReadTimeoutError(endpoint_url="http://s3")


@pytest.mark.parametrize(("answers", "asked"), [(0, 3), (1, 4), (3, 6), (9, 9)])
def test_a_store_that_hangs_is_not_waited_for_at_each_file(monkeypatch, answers, asked):
    """The lease is held meanwhile, and each request takes minutes."""
    every = tuple(Leaving(due("A", key=f"{FOLDER}{n}"), version("A", name=f"v{n}")) for n in range(9))
    store, tried = Store(monkeypatch, every), iter(range(99))

    def copy(*_: Any) -> None:
        if next(tried) >= answers:
            hang()

    monkeypatch.setattr(landing_versions, "_MOST_HANGING", 3)
    monkeypatch.setattr(landing_versions, "copy", copy)
    with nullcontext() if answers == 9 else pytest.raises(StoreUnreachable, match="no answer"):
        acting.clear(contract(archive_after="1d"), clearing_step(archive=True), lambda: None)
    assert (next(tried), len(store.removed)) == (asked, 9 if answers == 9 else 0)


def test_files_that_hang_and_others_that_are_refused_or_go_are_no_store_that_hangs(monkeypatch):
    every = tuple(Leaving(due("A", key=f"{FOLDER}{n}"), version("A", name=f"v{n}")) for n in range(9))
    store = Store(monkeypatch, every)
    store.refuses = {("copy", f"v{n}") for n in (2, 5)}

    def copy(one: Version, to: str) -> None:
        store.act("copy", one.id, to)
        if one.id in ("v0", "v1", "v3", "v4", "v6", "v7"):
            hang()

    monkeypatch.setattr(landing_versions, "_MOST_HANGING", 3)
    monkeypatch.setattr(landing_versions, "copy", copy)
    answer = acting.clear(contract(archive_after="1d"), clearing_step(archive=True), lambda: None)
    assert (answer.counters["files"], answer.counters["failed"]) == (1, 8)


def test_a_store_that_hangs_is_not_asked_for_each_file_that_was_cut_off(monkeypatch):
    store, asked = Store(monkeypatch, ()), []
    monkeypatch.setattr(landing_versions, "_MOST_HANGING", 3)
    monkeypatch.setattr(landing_versions, "is_there", lambda key, _: asked.append(key) or hang())
    monkeypatch.setattr(landing_gone, "begun", lambda _: [begun(f"v{n}") for n in range(9)])
    with pytest.raises(StoreUnreachable, match="no answer"):
        acting.settle_begun("bronze.events")
    assert (len(asked), store.ended) == (3, [])


@pytest.mark.parametrize(
    ("copied", "refused", "noted"), [(True, False, True), (False, False, True), (True, True, False)]
)
def test_a_file_that_is_not_there_is_noted_with_its_copy(monkeypatch, copied, refused, noted):
    """The ledger was restored from before the file was archived."""
    rows: list[Gone] = []
    store, copy = Store(monkeypatch, ONE_CORRECTED[-1:]), f"_archive/bronze.events/b1/{FOLDER}e"
    store.there, store.refuses = {copy} if copied else set(), {("look", copy)} if refused else set()
    monkeypatch.setattr(landing_gone, "note", rows.extend)
    answer = acting.clear(contract(delete_after="1d"), clearing_step(), lambda: None)
    to = f"s3://landing/{copy}" if copied else ""
    assert [(row.state, row.archived_to, row.version) for row in rows] == ([("absent", to, "")] if noted else [])
    assert answer.counters["absent"] == noted


def test_a_step_leaves_alone_what_an_earlier_one_tried(monkeypatch):
    asked: list[Span] = []
    Store(monkeypatch, ())
    monkeypatch.setattr(acting, "clearing", lambda _, span, __: asked.append(span) or Clearing())
    acting.clear(contract(delete_after="1d"), clearing_step(taken_from=OF.end), lambda: None)
    assert asked == [Span(NOW, OF.end, begun=False)]


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
    kept_in = "s3://landing/_archive/x"
    later = [begun(name, archived_to=kept_in) for name in ("v2", "v3")]
    monkeypatch.setattr(landing_gone, "begun", lambda _: [begun("v1"), *later])
    store.there = {"v2", "_archive/x"}
    acting.settle_begun("bronze.events")
    assert store.done == [("done", "v1"), ("done", "v3"), ("forgot", "v2")]
    store.done, store.there = [], set()
    acting.settle_begun("bronze.events")
    assert store.done == [("done", "v1"), ("absent", "v2"), ("absent", "v3")], "where there is no copy, it was not us"


def begun(version: str, of: str = "", **more: str) -> Gone:
    """A version of a file of its own, or of the named one."""
    row = Gone("bronze.events", "b1", f"s3://landing/{FOLDER}{of or version}", version, "A", 3, "", "begun")
    return row._replace(**more)


def test_what_the_store_does_not_tell_of_waits_and_keeps_no_other_from_its_end(monkeypatch):
    store = Store(monkeypatch, ())
    store.refuses = {("look", "v2")}
    cut_off = [begun("v1"), begun("v2", "two"), begun("v3", "two"), begun("v4")]
    monkeypatch.setattr(landing_gone, "begun", lambda _: cut_off)
    store.there = {"v4"}
    acting.settle_begun("bronze.events")
    assert store.ended == [("done", "v1"), ("forgot", "v4")]


def test_where_there_is_no_store_nothing_is_settled(monkeypatch):
    store = Store(monkeypatch, ())

    def away(*_: str) -> bool:
        raise StoreUnreachable("no answer") from EndpointConnectionError(endpoint_url="http://s3")

    monkeypatch.setattr(landing_gone, "begun", lambda _: [begun("v1")])
    monkeypatch.setattr(landing_versions, "is_there", away)
    with pytest.raises(StoreUnreachable, match="no answer"):
        acting.settle_begun("bronze.events")
    assert store.ended == []


# Two versions of the same bytes, with another between them that a batch took.
TWICE = (
    Leaving(due("B", batch="b2"), version("B", name="v2")),
    Leaving(due("A"), version("A", name="v1")),
    Leaving(due("A"), version("A", name="v3", current=True)),
)


def test_bytes_are_noted_as_gone_when_none_of_their_versions_is_there(monkeypatch):
    store = Store(monkeypatch, TWICE)
    store.refuses = {("remove", "v3")}
    acting.clear(contract(delete_after="1d"), clearing_step(), lambda: None)
    assert [name for _, name in store.removed] == ["v2", "v1"]
    assert store.ended == [("done", "v2"), ("forgot", "v1")], "v3 is as due as before"
    store.done, store.there = [], {"v3"}
    monkeypatch.setattr(landing_gone, "begun", lambda _: [begun("v1", "two"), begun("v3", "two")])
    acting.settle_begun("bronze.events")
    assert store.ended == [("forgot", "v1"), ("forgot", "v3")]


def test_a_version_that_is_past_its_time_and_beneath_one_that_goes_goes_once(monkeypatch):
    again = Leaving(due("B", batch="b2")._replace(taken_at=NOW), TWICE[0].version)
    store = Store(monkeypatch, (TWICE[0], again, *TWICE[1:]))
    acting.clear(contract(delete_after="1d"), clearing_step(), lambda: None)
    assert [name for _, name in store.removed] == ["v2", "v1", "v3"]
    assert [one for one in store.done if one[0] == "begun"] == [("begun", name) for name in ("v2", "v1", "v3")]


def test_what_was_cut_off_is_settled_before_anything_else_is_done(monkeypatch):
    settled: list[str] = []
    monkeypatch.setattr(carried_out, "_keep", lambda *_: None)
    monkeypatch.setattr(carried_out, "drop_old_branches", lambda *_: [])
    monkeypatch.setattr(carried_out, "settle_begun", settled.append)
    assert list(carried_out._tidy(contract(), lambda: NOW)) == []
    assert settled == ["bronze.events"]


def test_a_rollback_misses_only_files_that_are_in_force(monkeypatch):
    row = Gone("bronze.events", "b1", f"s3://landing/{KEY}", "v1", "A", 3, "", "done")
    monkeypatch.setattr(taken_files, "taken", lambda *_: {row.uri: [took("B"), took("A")]})
    assert files_lost("bronze.events", [row, row._replace(etag="B")]) == [row._replace(etag="B")]


@pytest.mark.parametrize(("state", "there", "misses"), [("done", "A", 1), ("begun", "", 1), ("begun", "A", 0)])
def test_what_was_begun_to_go_is_missed_where_it_is_not_there(monkeypatch, state, there, misses):
    row = begun("v1", state=state)
    monkeypatch.setattr(landing_gone, "taken_by", lambda _: [row])
    monkeypatch.setattr(taken_files, "taken_by", lambda _: [])
    listing = Listing(NOW, [Object(f"{FOLDER}v1", there, 3, NOW), Object(f"{FOLDER}v10", "A", 3, NOW)])
    monkeypatch.setattr(landing, "listed", lambda _: listing)
    assert len(planned._files_gone("bronze.events", [])) == misses


@pytest.mark.parametrize(
    ("there", "force", "misses"),
    [
        ([f"{FOLDER}_CLEARED"], "A", ["a.jsonl", "sub/b.jsonl"]),
        (["events/_CLEARED"], "A", ["a.jsonl", "sub/b.jsonl"]),
        ([f"{FOLDER}sub/_CLEARED", f"{FOLDER}sub/b.jsonl.gz"], "A", ["sub/b.jsonl"]),
        ([f"{FOLDER}_CLEARED", KEY], "A", ["sub/b.jsonl"]),  # a correction of it, perhaps, which is taken then
        ([f"{FOLDER}_CLEARED"], "B", []),  # others correct them, and are not undone
        ([f"{FOLDER}_CLEARED_not", "events/2026-01-02/_CLEARED"], "A", []),  # its source took them away
    ],
)
def test_what_landing_says_to_have_gone_is_missed_though_an_older_ledger_does_not_know_of_it(
    monkeypatch, there, force, misses
):
    taken = [Known("b1", f"s3://landing/{key}", "A", 3, NOW) for key in (KEY, f"{FOLDER}sub/b.jsonl")]
    monkeypatch.setattr(landing_gone, "taken_by", lambda _: [])
    monkeypatch.setattr(taken_files, "taken_by", lambda _: taken)
    monkeypatch.setattr(taken_files, "taken", lambda _, uris: {uri: [took(force), took("A")] for uri in uris})
    objects = [Object(key, "C", 3, NOW) for key in there]
    listed = lambda prefix: Listing(NOW, [one for one in objects if one.key.startswith(prefix)])  # noqa: E731
    monkeypatch.setattr(landing_cleared, "listed", listed)
    found = files_lost("bronze.events", planned._files_gone("bronze.events", []))
    assert [one.uri.removeprefix(f"s3://landing/{FOLDER}") for one in found] == misses


@pytest.mark.parametrize(
    ("there", "archived_to", "told"),
    [
        ("", "", f"batch b1 needs s3://landing/{FOLDER}v1, which is gone"),
        ("B", "s3://landing/_archive/v1", "v1, which is in s3://landing/_archive/v1; copy it back"),
        ("A", "s3://landing/_archive/v1", ""),
    ],
)
def test_a_batch_is_not_built_again_without_its_files(monkeypatch, there, archived_to, told):
    monkeypatch.setattr(landing_gone, "taken_by", lambda _: [begun("v1", state="done", archived_to=archived_to)])
    monkeypatch.setattr(landing, "listed", lambda _: Listing(NOW, [Object(f"{FOLDER}v1", there, 3, NOW)]))
    job = IngestJob.model_construct(batch_id="b1", bases={})
    with pytest.raises(CannotRebuild, match=re.escape(told)) if told else nullcontext():
        rebuild._demand(job)


def test_what_went_comes_along_in_a_backup():
    assert "landing_gone" in {one.name for one in rows.kept()}


def test_a_file_that_is_archived_while_a_backup_lists_is_in_it(monkeypatch):
    """Folders come behind the archive by their names; what is behind a page may go while that is read."""
    held = {"Events/a": "A", "_archive/b/Events/a": "A", "events/b": "B", "zoo/c": "C"}

    def paginate(Bucket: str, Prefix: str = "") -> Iterator[dict[str, Any]]:  # noqa: N803
        for key in sorted(held) if Bucket == "landing" else ():
            if key == "events/b":  # it has gone when the listing gets there
                held[f"_archive/b/{key}"] = held.pop(key)
            elif key.startswith(Prefix):
                yield {"Contents": [{"Key": key, "ETag": f'"{held[key]}"', "Size": 1}]}

    monkeypatch.setattr(objects, "client", lambda: SimpleNamespace(get_paginator=lambda _: Pages(paginate)))
    listed = [one.key for one in objects.present()]
    assert listed == ["Events/a", "zoo/c", "_archive/b/Events/a", "_archive/b/events/b"]


class Pages(NamedTuple):
    """As boto3 gives them."""

    paginate: Callable[..., Iterator[dict[str, Any]]]


# --- The archive ---


class Bucket:
    """Heads of objects by key, and what is copied."""

    def __init__(self, **heads: tuple[int, str]) -> None:
        self.heads = dict(heads)
        self.copies: list[dict[str, str]] = []
        self.becomes = (3, "A")
        self.put: dict[str, bytes] = {}
        self.fails = ""

    def head_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        if Key not in self.heads:
            raise ClientError({"ResponseMetadata": {"HTTPStatusCode": 404}}, "HeadObject")
        return {"ContentLength": self.heads[Key][0], "ETag": f'"{self.heads[Key][1]}"'}

    def put_object(self, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803
        self.put[Key] = Body

    def get_bucket_versioning(self, Bucket: str) -> dict[str, Any]:  # noqa: N803
        raise ClientError({"Error": {"Code": self.fails}}, "GetBucketVersioning")

    def copy(self, source: dict[str, str], _bucket: str, to: str, **_: Any) -> None:
        self.copies.append(source)
        self.heads[to] = self.becomes


@pytest.mark.parametrize(("there", "copied"), [(None, True), ((3, "A"), False), ((3, "encrypted"), False)])
def test_a_file_is_copied_unless_it_is_there(monkeypatch, there, copied):
    bucket = Bucket(**({"to": there} if there else {}))
    bucket.becomes = (3, "encrypted")
    monkeypatch.setattr(landing_versions, "_own", lambda: bucket)
    landing_versions.copy(version("A", name="v7"), "to")
    assert bucket.copies == ([{"Bucket": "landing", "Key": KEY, "VersionId": "v7"}] if copied else [])


def test_other_bytes_in_the_archive_are_never_written_over(monkeypatch):
    bucket = Bucket(to=(4, "A"))
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


def test_a_folder_is_marked_once(monkeypatch):
    bucket = Bucket(there=(2, "A"))
    monkeypatch.setattr(landing_versions, "_own", lambda: bucket)
    landing_versions.mark("there", "{}")
    assert bucket.put == {}
    landing_versions.mark("new", "{}")
    assert bucket.put == {"new": b"{}"}


@pytest.mark.parametrize(("code", "kept"), [("NotImplemented", False), ("MethodNotAllowed", False), ("Denied", None)])
def test_a_store_that_knows_no_versions_keeps_none(monkeypatch, code, kept):
    bucket = Bucket()
    bucket.fails = code
    monkeypatch.setattr(landing_versions, "_own", lambda: bucket)
    if kept is None:
        with pytest.raises(StoreUnreachable, match=code):
            landing_versions.are_kept()
    else:
        assert landing_versions.are_kept() is kept
