"""Landing folders on the real store: which files are data, and when a folder is complete."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from lakehouse import landing
from lakehouse.contracts import Bronze
from lakehouse.landing import LandingError, data_files, missing
from lakehouse.roles import Role
from lakehouse.store import client
from tests.stack.harness import eventually

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class Folder:
    """A landing folder of a test's own."""

    contract: Bronze

    @property
    def prefix(self) -> str:
        return self.contract.landing_prefix(START)

    def put(self, **files: str | bytes) -> None:
        for name, body in files.items():
            client().put_object(Bucket="landing", Key=self.prefix + name, Body=body)

    def manifest(self, *listed: Any) -> None:
        self.put(**{"manifest.json": json.dumps({"files": listed})})

    def data(self) -> list[str]:
        return [f.uri.removeprefix(f"s3://landing/{self.prefix}") for f in data_files(self.contract, START)]

    def missing(self, end: datetime = END) -> str | None:
        told = missing(self.contract, START, end)
        return told.replace(self.prefix, "FOLDER/") if told else None


@pytest.fixture
def folder(stack) -> Callable[..., Folder]:
    def of(**ready: str) -> Folder:
        given = {
            "dataset": "bronze.landing_test",
            "description": "A test.",
            "owner": "tests",
            "start": "2026-01-01",
            "source": {"kind": "files", "path": f"t{uuid4().hex[:8]}/{{interval:%Y-%m-%d}}/", "ready": ready},
            "sla": {"ready_within": "1h"},
            "retention": {"snapshots": "7d"},
            "maintenance": {},
        }
        return Folder(Bronze.model_validate(given))

    return of


@contextmanager
def at_each(event: str, handler: Callable[..., Any]) -> Iterator[None]:
    """Call the handler at each such event of the S3 client."""
    client(Role.INGEST).meta.events.register(event, handler)
    try:
        yield
    finally:
        client(Role.INGEST).meta.events.unregister(event, handler)


@contextmanager
def calls() -> Iterator[list[str]]:
    """The calls that are made to the store."""
    made: list[str] = []

    def note(model: Any, **_: Any) -> None:
        made.append(model.name)

    with at_each("before-call.s3", note):
        yield made


def store_clock_ahead(by: timedelta, from_page: int = 1) -> Any:
    """A store whose clock is not ours, from some page of its listing on."""
    pages = count(1)

    def shift(parsed: dict[str, Any], **_: Any) -> None:
        headers = parsed["ResponseMetadata"]["HTTPHeaders"]
        if next(pages) >= from_page:
            headers["date"] = format_datetime(parsedate_to_datetime(headers["date"]) + by, usegmt=True)

    return at_each("after-call.s3.ListObjectsV2", shift)


def older(by: timedelta, but: str = "") -> Any:
    """Objects that have last changed earlier, but for the one of that name."""

    def shift(parsed: dict[str, Any], **_: Any) -> None:
        for one in parsed.get("Contents", []):
            if one["Key"].rpartition("/")[2] != but:
                one["LastModified"] -= by

    return at_each("after-call.s3.ListObjectsV2", shift)


def few_keys_a_page() -> Any:
    def limit(params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {**params, "MaxKeys": 2}

    return at_each("provide-client-params.s3.ListObjectsV2", limit)


def test_a_folder_is_complete_when_its_marker_is_there(folder):
    orders = folder(marker="_SUCCESS")
    orders.put(**{"a.jsonl": "{}", "_SUCCESS_OF_ANOTHER": ""})
    assert orders.missing() == "landing/FOLDER/_SUCCESS"
    orders.put(_SUCCESS="")
    assert orders.missing() is None


def test_a_marker_is_looked_for_with_one_call_however_many_files_there_are(folder):
    orders = folder(marker="_SUCCESS")
    orders.put(**{f"{n}.jsonl": "{}" for n in range(5)}, _SUCCESS="")
    with calls() as made, few_keys_a_page():
        assert orders.missing() is None
    assert made == ["ListObjectsV2"]


def test_data_is_all_but_the_marker_and_what_is_hidden_by_its_name(folder):
    orders = folder(marker="done.txt")
    hidden = {"_committed_1": "", ".a.crc": "", "_temporary/0/part-0": "{}", "sub/": "", "done.txt": ""}
    orders.put(**{"a.jsonl": "{}", "sub/b.jsonl": "{}", "sub/done.txt": "{}", **hidden})
    assert orders.data() == ["a.jsonl", "sub/b.jsonl", "sub/done.txt"]


def test_a_file_is_known_by_content_and_size_on_every_page_of_a_listing(folder):
    orders = folder(marker="_SUCCESS")
    orders.put(**{f"{n}.jsonl": "a" for n in range(5)})
    with few_keys_a_page():
        found = data_files(orders.contract, START)
    assert [(f.etag, f.bytes) for f in found] == [("0cc175b9c0f1b6a831c399e269772661", 1)] * 5


def test_a_folder_is_complete_when_all_that_its_manifest_lists_is_there(folder):
    orders = folder(manifest="manifest.json")
    orders.put(**{"1.jsonl": "{}", "3.jsonl": "{}"})
    assert orders.missing() == "landing/FOLDER/manifest.json"
    orders.manifest("1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl")
    assert orders.missing() == "2 of 4 files of landing/FOLDER/manifest.json, the first 2.jsonl"
    orders.put(**{"2.jsonl": "{}", "4.jsonl": "{}"})
    assert orders.missing() is None


def test_a_file_of_another_size_or_content_than_listed_is_still_awaited(folder):
    orders = folder(manifest="manifest.json")
    orders.put(a="123", b="45")
    orders.manifest({"name": "a", "size": 3}, {"name": "b", "bytes": 10})
    assert orders.missing() == "1 of 2 files of landing/FOLDER/manifest.json, the first b (2 of 10 bytes)"
    orders.manifest({"name": "a", "md5": "0cc175b9c0f1b6a831c399e269772661"})
    assert orders.missing() == (
        "1 of 1 files of landing/FOLDER/manifest.json, the first a (its content is not the one listed)"
    )
    orders.put(a="a")
    assert orders.missing() is None


def test_a_manifest_costs_two_calls_however_many_files_it_lists(folder):
    orders = folder(manifest="manifest.json")
    names = [f"{n}.jsonl" for n in range(5)]
    orders.put(**dict.fromkeys(names, "{}"))
    orders.manifest(*names)
    with calls() as made:
        assert orders.missing() is None
    assert made == ["GetObject", "ListObjectsV2"]


def test_data_is_what_the_manifest_lists_and_the_log_tells_how_much_is_not(folder, caplog):
    orders = folder(manifest="manifest.json")
    orders.put(a="{}", b="{}", c="{}", _d="{}", _e="")
    orders.manifest("a", f"s3://landing/{orders.prefix}_d")
    with caplog.at_level(logging.WARNING):
        assert orders.data() == ["_d", "a"]
    assert caplog.messages == [f"2 files of landing/{orders.prefix} ignored, which manifest.json does not list"]


def test_an_empty_list_is_a_folder_that_is_complete_without_data(folder):
    orders = folder(manifest="manifest.json")
    orders.manifest()
    assert (orders.missing(), orders.data()) == (None, [])


def test_part_of_what_a_manifest_lists_is_never_taken_for_the_whole(folder):
    orders = folder(manifest="manifest.json")
    orders.put(a="{}")
    with pytest.raises(LandingError, match=r"/manifest.json is not there; deliver it again$"):
        orders.data()
    orders.manifest("a", "b")
    with pytest.raises(LandingError, match=r"^not there: 1 of 2 files of .*, the first b; deliver them, or correct"):
        orders.data()


def test_a_manifest_that_cannot_be_read_is_an_error_and_no_reason_to_wait(folder):
    orders = folder(manifest="manifest.json")
    orders.put(**{"manifest.json": '{"files": ['})
    with pytest.raises(LandingError, match=r"manifest.json is no manifest: Expecting value: line 1 column 12"):
        orders.missing()


def test_a_data_file_named_as_manifest_is_not_read_into_memory(folder, monkeypatch):
    orders = folder(manifest="manifest.json")
    monkeypatch.setattr(landing, "MOST_MANIFEST_BYTES", 5)
    orders.put(**{"manifest.json": "[    ]"})
    with pytest.raises(LandingError, match="is no manifest: it has 6 bytes; list the folder's files"):
        orders.missing()


def test_a_folder_is_complete_when_nothing_in_it_has_changed_for_a_while(folder):
    orders = folder(quiet="4s")
    assert orders.missing() == "a first file in landing/FOLDER/"
    orders.put(a="{}")
    assert orders.missing() in [f"quiet for 4s, last change {n}s ago" for n in range(4)]
    eventually(lambda: orders.missing() is None, 60, "the folder is quiet")
    orders.put(a="{}")
    assert orders.missing() is not None
    assert orders.data() == ["a"]


def test_hidden_objects_disturb_the_quiet_and_are_no_first_file(folder):
    orders = folder(quiet="1h")
    orders.put(**{"_temporary/0/part-0": "{}"})
    with store_clock_ahead(timedelta(hours=2)):
        assert orders.missing() == "a first file in landing/FOLDER/"
        orders.put(a="{}")
        assert orders.missing() is None
    with store_clock_ahead(timedelta(minutes=30)):
        assert orders.missing() in ("quiet for 1h, last change 29m ago", "quiet for 1h, last change 30m ago")


@pytest.mark.parametrize("changed", ["0", "3", "4", "_5"])
def test_the_last_change_counts_wherever_it_is_in_the_listing(folder, changed):
    orders = folder(quiet="1h")
    orders.put(**dict.fromkeys(["0", "1", "2", "3", "4", "_5"], "{}"))
    with few_keys_a_page(), older(timedelta(hours=2)):
        assert orders.missing() is None
    with few_keys_a_page(), older(timedelta(hours=2), but=changed):
        assert orders.missing() is not None


def test_quiet_is_judged_by_the_stores_clock(folder):
    orders = folder(quiet="1h")
    orders.put(a="{}")
    assert orders.missing() is not None
    with store_clock_ahead(timedelta(hours=1, seconds=5)):
        assert orders.missing() is None


def test_a_listing_that_takes_long_is_judged_as_of_its_beginning(folder):
    orders = folder(quiet="1h")
    orders.put(**dict.fromkeys("abcde", "{}"))
    with few_keys_a_page(), store_clock_ahead(timedelta(hours=2), from_page=2):
        assert orders.missing() is not None


def test_a_quiet_folder_of_an_interval_that_has_not_ended_is_not_complete(folder):
    orders = folder(quiet="1h")
    orders.put(a="{}")
    end = datetime.now(UTC) + timedelta(hours=3)
    with store_clock_ahead(timedelta(hours=2)):
        assert orders.missing(end) == f"the interval's end at {end.isoformat()}"
    with store_clock_ahead(timedelta(hours=4)):
        assert orders.missing(end) is None


def test_quiet_costs_one_call(folder):
    orders = folder(quiet="1h")
    orders.put(a="{}", b="{}")
    with calls() as made:
        orders.missing()
    assert made == ["ListObjectsV2"]
