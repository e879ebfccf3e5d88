"""What makes a backup look again: what it has read must belong together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pyiceberg.exceptions import NoSuchTableError

from lakehouse.backup import taken
from lakehouse.backup.model import Object
from lakehouse.store import StoreUnreachable
from tests.unit.landing_world import NOW

STILL = (3, NOW)
FILE = Object("landing", "events/a.jsonl", "A", 3)


class World:
    """Ledger, catalog and store, which change as a test says."""

    def __init__(self) -> None:
        self.cleared: list[Any] = []  # what is answered at first
        self.published: list[Any] = []
        self.fails: list[Exception] = []  # when tables are listed
        self.refuses: list[Exception] = []  # when objects are
        self.listed = 0

    def tables(self) -> dict[str, str]:
        if self.fails:
            raise self.fails.pop()
        return {}

    def present(self) -> Iterator[Object]:
        self.listed += 1
        if self.refuses:
            raise self.refuses.pop()
        yield FILE


@pytest.fixture
def world(monkeypatch) -> World:
    found = World()
    monkeypatch.setattr(taken, "now", lambda: NOW)
    monkeypatch.setattr(taken, "_tables", found.tables)
    monkeypatch.setattr(taken, "_namespaces", dict)
    monkeypatch.setattr(taken, "present", found.present)
    monkeypatch.setattr(taken.rows, "dump", lambda _: ({}, "known"))
    monkeypatch.setattr(taken.rows, "published", lambda: found.published.pop(0) if found.published else "known")
    monkeypatch.setattr(taken.rows, "cleared", lambda: found.cleared.pop(0) if found.cleared else STILL)
    return found


def taking(folder: Path) -> list[str]:
    """What is told of a backup."""
    said: list[str] = []
    _, made = taken.take(folder, objects=False, tell=said.append)
    assert (made.published, made.files, made.objects) == ("known", 0, None)
    return [line for line in said if "again" in line]


def test_a_backup_of_what_stands_still_looks_once(world, tmp_path):
    assert (taking(tmp_path), world.listed) == ([], 1)


@pytest.mark.parametrize("after", [(4, NOW), (3, NOW + timedelta(seconds=1)), (2, NOW)])
def test_landing_files_that_go_while_the_store_is_listed_make_it_look_again(world, tmp_path, after):
    """Else a file would be in no folder, and the ledger would not know that it went."""
    world.cleared = [STILL, after]
    assert (taking(tmp_path), world.listed) == (["landing files went meanwhile; looking again"], 2)


def test_a_publish_a_drop_and_a_file_that_is_removed_make_it_look_again(world, tmp_path):
    world.published = ["another"]
    world.fails = [NoSuchTableError("silver.orders")]
    world.refuses = [ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")]
    dropped, published, gone = taking(tmp_path)
    assert dropped == "a table was dropped while they were listed; looking again"
    assert published == "a batch was published meanwhile; looking again"
    assert gone.startswith("maintenance took a file away meanwhile (An error occurred (NoSuchKey)")


@pytest.mark.parametrize(("tries", "enough"), [(taken.TRIES - 1, True), (taken.TRIES, False)])
def test_what_never_stands_still_is_given_up(world, tmp_path, tries, enough):
    world.cleared = [one for number in range(tries) for one in (STILL, (number + 10, NOW))]
    with nullcontext() if enough else pytest.raises(taken.NeverStill):
        assert len(taking(tmp_path)) == tries
    assert [path.name for path in tmp_path.iterdir()] == (["2026-06-01T000000Z"] if enough else [])


def test_a_store_that_refuses_is_not_asked_again(world, tmp_path):
    world.refuses = [ClientError({"Error": {"Code": "AccessDenied"}}, "ListObjectsV2")]
    with pytest.raises(StoreUnreachable, match="AccessDenied"):
        taking(tmp_path)
    assert world.listed == 1
