"""`lakehouse land`, as a data engineer uses it for a first file."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.contracts import Bronze
from lakehouse.landing import data_files, missing
from lakehouse.store import client
from tests.stack.harness import LAKEHOUSE
from tests.stack.shop import Shop

START, END = datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 6, tzinfo=UTC)


@dataclass
class Source:
    """The orders of a shop of a test's own, whose contract says when a folder is complete."""

    shop: Shop
    files: Path

    @property
    def contract(self) -> Bronze:
        found = self.shop.contract(self.shop.bronze)
        assert isinstance(found, Bronze)
        return found

    @property
    def prefix(self) -> str:
        return self.contract.landing_prefix(START)

    def land(self, *names: str, more: bool = False, dataset: str = "") -> subprocess.CompletedProcess[str]:
        for name in names:
            (self.files / name).write_text('{"id": 1}\n')
        arguments = [dataset or self.shop.bronze, "2026-01-05", *(str(self.files / name) for name in names)]
        return subprocess.run(
            [LAKEHOUSE, "land", *arguments, *(["--more"] if more else [])],
            env={**os.environ, "LAKEHOUSE_CONTRACTS": str(self.shop.folder), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )

    def data(self) -> list[str]:
        return [f.uri.removeprefix(f"s3://landing/{self.prefix}") for f in data_files(self.contract, START)]

    def missing(self) -> str | None:
        return missing(self.contract, START, END)

    def keys(self) -> list[str]:
        found = client().list_objects_v2(Bucket="landing", Prefix=self.prefix)
        return [one["Key"].removeprefix(self.prefix) for one in found.get("Contents", [])]


@pytest.fixture
def source(stack, tmp_path) -> Callable[[str], Source]:
    def of(ready: str) -> Source:
        shop = Shop.open(tmp_path / "contracts")
        file = shop.folder / f"bronze/orders_{shop.suffix}.yaml"
        file.write_text(file.read_text().replace("ready: {marker: _SUCCESS}", f"ready: {ready}"))
        return Source(shop, tmp_path)

    return of


def test_files_are_put_where_the_source_looks_and_the_marker_comes_last(source):
    orders = source("{marker: _SUCCESS}")
    done = orders.land("a.jsonl", more=True)
    assert done.stdout == f"1 file(s) in landing/{orders.prefix}\n", done.stderr
    assert orders.data() == ["a.jsonl"]
    assert orders.missing() == f"landing/{orders.prefix}_SUCCESS"

    done = orders.land("b.jsonl")
    assert done.stdout == f"1 file(s) in landing/{orders.prefix}, marked complete\n"
    assert orders.data() == ["a.jsonl", "b.jsonl"]
    assert orders.missing() is None


def test_a_manifest_lists_all_that_was_landed_until_it_is_written(source):
    orders = source("{manifest: manifest.json}")
    assert orders.land("a.jsonl", "b.jsonl", more=True).returncode == 0
    assert orders.missing() == f"landing/{orders.prefix}manifest.json"

    done = orders.land("c.jsonl")
    assert done.stdout == f"1 file(s) in landing/{orders.prefix}, listed in manifest.json\n", done.stderr
    assert orders.data() == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert orders.missing() is None


def test_landing_into_a_folder_with_a_manifest_adds_to_it_and_nothing_else(source):
    orders = source("{manifest: manifest.json}")
    listed = [{"name": "late.jsonl", "size": 10}, {"name": "b.jsonl", "size": 99}]
    client().put_object(Bucket="landing", Key=f"{orders.prefix}manifest.json", Body=json.dumps(listed))
    client().put_object(Bucket="landing", Key=f"{orders.prefix}stray.jsonl", Body=b"{}")
    assert orders.land("b.jsonl", "c.jsonl").returncode == 0
    assert orders.missing() == f"1 of 3 files of landing/{orders.prefix}manifest.json, the first late.jsonl"
    assert orders.land("late.jsonl").returncode == 0
    assert orders.data() == ["b.jsonl", "c.jsonl", "late.jsonl"]


def test_where_quiet_says_it_nothing_but_the_files_is_written(source):
    orders = source("{quiet: 10m}")
    done = orders.land("a.jsonl")
    told = f"1 file(s) in landing/{orders.prefix}, complete once nothing has changed for 10m\n"
    assert done.stdout == told, done.stderr
    assert orders.keys() == ["a.jsonl"]


def test_a_file_that_would_not_be_read_is_refused_in_one_sentence(source):
    orders = source("{marker: _SUCCESS}")
    done = orders.land("a.jsonl", "_b.jsonl")
    assert done.returncode == 1
    told = "_b.jsonl would be taken for no data; give it a name that begins with neither _ nor ."
    assert done.stderr.strip() == f"lakehouse: {told}"
    assert orders.keys() == []


def test_a_dataset_without_landing_folder_is_refused_in_one_sentence(source):
    orders = source("{marker: _SUCCESS}")
    done = orders.land("a.jsonl", dataset=orders.shop.silver)
    assert done.returncode == 1
    assert done.stderr.strip() == f"lakehouse: {orders.shop.silver} has no landing folder; name a bronze dataset"


@pytest.mark.parametrize(
    ("setting", "value"), [("S3_ENDPOINT", "http://127.0.0.1:1"), ("S3_SECRET_KEY", "wrong")], ids=["silent", "refuses"]
)
def test_a_store_that_does_not_answer_or_refuses_is_told_in_one_sentence(source, monkeypatch, setting, value):
    orders = source("{marker: _SUCCESS}")
    monkeypatch.setenv(f"LAKEHOUSE_{setting}", value)
    done = orders.land("a.jsonl")
    assert done.returncode == 1
    assert done.stderr.startswith("lakehouse: the object store at http://127.0.0.1:")
    assert "Traceback" not in done.stderr


def test_the_folder_can_be_looked_at(source):
    found = source("{marker: _SUCCESS}")
    found.land("part-0.jsonl", more=True)

    def look(dataset: str = "", day: str = "2026-01-05") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [LAKEHOUSE, "landing", dataset or found.shop.bronze, day],
            env={**os.environ, "LAKEHOUSE_CONTRACTS": str(found.shop.folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    shown = look().stdout
    assert f"{found.prefix}part-0.jsonl\t10\t" in shown
    assert shown.endswith(f"waits for landing/{found.prefix}_SUCCESS\n")
    found.land("part-1.jsonl")
    assert look().stdout.endswith("complete\n")
    assert look(found.shop.silver).stderr.startswith(f"lakehouse: {found.shop.silver} has no landing folder")
