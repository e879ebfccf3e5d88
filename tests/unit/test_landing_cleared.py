"""Folders that files went from: what went is awaited no more, and what is left is not taken for all there was."""

from __future__ import annotations

import re
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse import landing, plan
from lakehouse.batch import InputFile
from lakehouse.landing_bucket import LandingError, Listing, Object
from lakehouse.ledger import landing_gone, taken_files
from lakehouse.ledger.landing_gone import Gone
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


def test_the_mark_of_a_cleared_folder_is_no_change_of_it(monkeypatch, asked):
    ready = contract(ready={"quiet": "1h"}).source.ready
    monkeypatch.setattr(landing, "listed", lambda _: Listing(NOW, [there("_CLEARED")]))
    assert landing.awaited(FOLDER, ready, OF.end) is None
    monkeypatch.setattr(landing, "listed", lambda _: Listing(NOW, [there("_other")]))
    assert landing.awaited(FOLDER, ready, OF.end) == "quiet for 1h, last change 0s ago"


MARKED = f"landing/{FOLDER}_CLEARED"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            b'{"dataset": "bronze.events", "since": "2026-05-01T00:00:00Z"}',
            (
                "for bronze.events since 2026-05-01T00:00:00Z, and the ledger knows no batch of bronze.late that took "
                "its files; bring them back, from landing/_archive/bronze.events or from a backup where they were "
                f"deleted, and remove {MARKED}; or only remove it if the interval is really to be without them"
            ),
        ),
        (b'{"files": "deleted"}', "bring them back, from landing/_archive/ or from a backup where they were deleted"),
        (b"[]", "was cleared for maintenance since some day"),
        (b"no JSON", "was cleared for maintenance since some day"),
    ],
)
def test_what_is_left_in_a_cleared_folder_is_not_taken_for_all_of_its_interval(monkeypatch, body, told):
    monkeypatch.setattr(landing, "client", lambda _: SimpleNamespace(get_object=lambda **_: {"Body": BytesIO(body)}))
    monkeypatch.setattr(landing, "listed", lambda _: Listing(NOW, [there("_CLEARED")]))
    monkeypatch.setattr(taken_files, "took_from", lambda *_: False)
    with pytest.raises(LandingError, match=re.escape(told)):
        landing.check_known_if_cleared(contract("bronze.late"), OF.start)


def test_a_cleared_folder_whose_files_the_ledger_knows_takes_corrections_as_ever(monkeypatch):
    asked: list[Any] = []
    monkeypatch.setattr(landing, "listed", lambda _: Listing(NOW, [there("_CLEARED")]))
    monkeypatch.setattr(taken_files, "took_from", lambda *of: asked.append(of) or True)
    landing.check_known_if_cleared(contract(), OF.start)
    assert asked == [("bronze.events", f"s3://landing/{FOLDER}")]
    monkeypatch.setattr(landing, "listed", lambda _: Listing(NOW, [there("_CLEARED_not")]))
    monkeypatch.setattr(taken_files, "took_from", lambda *_: False)
    landing.check_known_if_cleared(contract(), OF.start)


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
