"""Folders that files went from: what went is awaited no more, and what is left is not taken for all there was."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, field
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse import landing, landing_cleared, plan
from lakehouse.batch import InputFile
from lakehouse.contracts.model import Bronze
from lakehouse.landing_bucket import LandingError, Listing, Object
from lakehouse.ledger import landing_gone, taken_files
from lakehouse.ledger.landing_gone import Gone
from lakehouse.ledger.taken_files import Known
from lakehouse.manifest import Listed, Manifest
from lakehouse.plan import Attempt
from tests.unit.landing_world import DAY, FOLDER, KEY, NOW, OF, contract


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


TOLD = b'{"dataset": "bronze.events", "since": "2026-05-01T00:00:00Z"}'
MARK = f"{FOLDER}_CLEARED"


@dataclass
class World:
    """The bucket's keys, and what the ledger knows: files that went, that are published, whose batch was undone."""

    keys: set[str] = field(default_factory=set)
    went: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    undone: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)  # of the ledger, by whom

    def listed(self, prefix: str) -> Listing:
        return Listing(NOW + DAY, [Object(key, "A", 3, NOW) for key in sorted(self.keys) if key.startswith(prefix)])

    def under(self, address: str) -> list[Gone]:
        self.asked.append(address)
        rows = [Gone("bronze.events", "b1", f"s3://landing/{key}", "v1", "A", 3, "", "done", NOW) for key in self.went]
        return [row for row in rows if row.uri.startswith(address)]

    def known(self, address: str) -> list[Known]:
        rows = [Known("b1", f"s3://landing/{key}", "A", 3, NOW) for key in sorted(self.taken)]
        return [row for row in rows if row.uri.startswith(address)]

    def took(self, address: str, dataset: str = "") -> bool:
        known = {f"s3://landing/{key}" for key in self.taken | self.undone}
        return dataset in ("", "bronze.events") and any(uri.startswith(address) for uri in known)


@pytest.fixture
def world(monkeypatch) -> World:
    found = World()
    for module in (landing, landing_cleared):
        monkeypatch.setattr(module, "listed", found.listed)
    body = SimpleNamespace(get_object=lambda **_: {"Body": BytesIO(TOLD)})
    monkeypatch.setattr(landing_cleared, "client", lambda _: body)
    monkeypatch.setattr(landing_gone, "under", found.under)
    monkeypatch.setattr(taken_files, "taken_under", found.known)
    monkeypatch.setattr(taken_files, "took_from", found.took)
    undone = lambda _, address: [f"s3://landing/{key}" for key in found.undone - found.taken]  # noqa: E731
    monkeypatch.setattr(taken_files, "undone_under", undone)
    return found


# --- Waiting ---


@pytest.mark.parametrize(
    ("keys", "folder", "told", "asks"),
    [
        ({KEY}, FOLDER, None, 0),
        (set(), FOLDER, None, 1),
        (set(), "others/", "a first file in landing/others/", 1),
    ],
)
def test_an_emptied_folder_is_quiet_and_the_ledger_is_asked_in_need_only(world, keys, folder, told, asks):
    world.keys, world.went = keys, {KEY}
    assert landing.awaited(folder, contract(ready={"quiet": "1h"}).source.ready, OF.end) == told
    assert len(world.asked) == asks


@pytest.mark.parametrize("mark", ["_CLEARED", "sub/_CLEARED"])
def test_the_mark_of_a_cleared_folder_is_no_change_of_it(world, monkeypatch, mark):
    ready = contract(ready={"quiet": "1h"}).source.ready
    world.went, now = {KEY}, [there(mark)]
    monkeypatch.setattr(landing, "listed", lambda _: Listing(NOW, now))
    assert landing.awaited(FOLDER, ready, OF.end) is None
    now[0] = there("_other")
    assert landing.awaited(FOLDER, ready, OF.end) == "quiet for 1h, last change 0s ago"


def waits(monkeypatch: pytest.MonkeyPatch, how: str) -> str | None:
    """What the folder waits for; a manifest lists a.jsonl."""
    listing = Manifest(f"{FOLDER}m.json", {KEY: Listed(name="a.jsonl")})
    monkeypatch.setattr(landing, "_manifest", lambda *_: listing)
    ready = contract(ready={"quiet": "1h"} if how == "quiet" else {"manifest": "m.json"}).source.ready
    return landing.awaited(FOLDER, ready, OF.end)


@pytest.mark.parametrize("how", ["quiet", "manifest"])
def test_a_wait_for_files_that_went_and_that_an_older_ledger_does_not_know_is_hopeless(world, monkeypatch, how):
    assert waits(monkeypatch, how) is not None, "an empty folder is waited for"
    world.keys = {MARK}
    told = f"landing/{FOLDER} was cleared for bronze.events since 2026-05-01T00:00:00Z, and the ledger knows no batch"
    with pytest.raises(LandingError, match=re.escape(told)):
        waits(monkeypatch, how)


@pytest.mark.parametrize("how", ["quiet", "manifest"])
def test_files_that_were_taken_are_not_awaited_from_a_cleared_folder_though_the_ledger_does_not_know_that_they_went(
    world, monkeypatch, how
):
    world.taken = {KEY}
    assert waits(monkeypatch, how) is not None, "it may come again"
    world.keys = {MARK}
    assert waits(monkeypatch, how) is None


def test_a_folder_within_one_that_was_cleared_under_an_earlier_path_is_waited_for_as_ever(world, monkeypatch):
    world.keys, world.taken = {"events/_CLEARED"}, {"events/old.jsonl"}
    assert waits(monkeypatch, "quiet") == f"a first file in landing/{FOLDER}"


# --- Taking what is left ---


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            TOLD,
            (
                "for bronze.events since 2026-05-01T00:00:00Z, and the ledger knows no batch of bronze.late that took "
                "its files; bring them back, from landing/_archive/bronze.events or from a backup where they were "
                f"deleted, and remove landing/{MARK}; or only remove it if the interval is really to be without them"
            ),
        ),
        (b'{"files": "deleted"}', "bring them back, from landing/_archive/ or from a backup where they were deleted"),
        (b"[]", "was cleared for maintenance since some day"),
        (b"no JSON", "was cleared for maintenance since some day"),
    ],
)
def test_what_is_left_in_a_cleared_folder_is_not_taken_for_all_of_its_interval(world, monkeypatch, body, told):
    found = SimpleNamespace(get_object=lambda **_: {"Body": BytesIO(body)})
    monkeypatch.setattr(landing_cleared, "client", lambda _: found)
    world.keys, world.taken = {MARK}, {KEY}
    with pytest.raises(LandingError, match=re.escape(told)):
        landing_cleared.check_known_if_cleared(contract("bronze.late"), OF.start)


def test_a_cleared_folder_whose_files_the_ledger_knows_takes_corrections_as_ever(world):
    world.keys, world.taken = {MARK}, {KEY}
    landing_cleared.check_known_if_cleared(contract(), OF.start)
    world.keys, world.taken = {f"{MARK}_not"}, set()
    landing_cleared.check_known_if_cleared(contract(), OF.start)


def moved(path: str, dataset: str = "bronze.events") -> Bronze:
    """A contract with another path by now."""
    found = contract(dataset)
    return found.model_copy(update={"source": found.source.model_copy(update={"path": path})})


@pytest.mark.parametrize(
    ("path", "cleared", "known"),
    [
        ("events/{interval:%Y}/", "events/2026/01/01/", True),
        ("events/{interval:%Y}/", "events/2026/01/02/", False),
        ("events/{interval:%Y/%m/%d}/", "events/2026/01/", True),
        ("events/{interval:%Y/%m/%d}/", "events/", True),
    ],
    ids=["finer", "finer, and not known", "coarser", "coarser by two"],
)
def test_a_folder_that_was_cleared_under_another_path_is_not_taken_for_whole(world, path, cleared, known):
    world.keys, world.taken = {f"{cleared}_CLEARED"}, {"events/2026/01/01/a.jsonl"}
    told = re.escape(f"landing/{cleared} was cleared")
    with pytest.raises(LandingError, match=told):
        landing_cleared.check_known_if_cleared(moved(path, "bronze.late"), OF.start)
    with nullcontext() if known else pytest.raises(LandingError, match=told):
        landing_cleared.check_known_if_cleared(moved(path), OF.start)


def test_a_folder_beside_one_that_was_cleared_is_whole(world):
    world.keys = {"events/2026-01-02/_CLEARED", "events/2026-01-01_CLEARED", "others/_CLEARED"}
    landing_cleared.check_known_if_cleared(contract("bronze.late"), OF.start)


@pytest.mark.parametrize(
    ("keys", "taken", "fine"), [({MARK}, set(), False), ({MARK, KEY}, set(), True), ({MARK}, {KEY}, True)]
)
def test_what_an_undone_batch_took_from_a_cleared_folder_must_be_there_to_be_taken_again(world, keys, taken, fine):
    world.keys, world.undone, world.taken = keys, {KEY}, taken
    told = f"of those whose batch was undone 1 are not there, such as s3://landing/{KEY}"
    with nullcontext() if fine else pytest.raises(LandingError, match=told):
        landing_cleared.check_known_if_cleared(contract(), OF.start)


@pytest.mark.parametrize("files", [[], [InputFile(uri=f"s3://landing/{KEY}", etag="A", bytes=3)]])
def test_nothing_is_planned_from_a_cleared_folder_that_the_ledger_does_not_know(monkeypatch, files):
    def refuse(*_: Any) -> None:
        raise LandingError("it was cleared")

    monkeypatch.setattr(plan, "data_files", lambda *_: files)
    monkeypatch.setattr(taken_files, "untaken", lambda _, files: files)
    monkeypatch.setattr(plan, "_covered", lambda *_: False)
    monkeypatch.setattr(plan, "check_known_if_cleared", refuse)
    with pytest.raises(LandingError, match="it was cleared"):
        plan._plan_ingest(contract(), OF, Attempt("a run", 1))
