"""`lakehouse land`, as a data engineer uses it for a first file."""

from __future__ import annotations

import os
import subprocess

from lakehouse.store import landing_complete, landing_files
from tests.stack.harness import LAKEHOUSE
from tests.stack.shop import Shop


def land(folder, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LAKEHOUSE_CONTRACTS": str(folder)}
    return subprocess.run([LAKEHOUSE, "land", *arguments], env=environment, capture_output=True, text=True, check=False)


def test_files_are_put_where_the_source_looks_and_the_marker_comes_last(stack, tmp_path):
    shop = Shop.open(tmp_path / "contracts")
    file = tmp_path / "orders.jsonl"
    file.write_text('{"id": 1}\n')
    prefix = f"orders_{shop.suffix}/2026-01-05/"

    done = land(shop.folder, shop.bronze, "2026-01-05", str(file), "--more")
    assert done.returncode == 0, done.stderr
    assert [f.uri for f in landing_files(prefix)] == [f"s3://landing/{prefix}orders.jsonl"]
    assert not landing_complete(prefix, "_SUCCESS")

    assert land(shop.folder, shop.bronze, "2026-01-05", str(file)).returncode == 0
    assert landing_complete(prefix, "_SUCCESS")


def test_a_dataset_without_landing_folder_is_refused_in_one_sentence(stack, tmp_path):
    shop = Shop.open(tmp_path / "contracts")
    file = tmp_path / "orders.jsonl"
    file.write_text("{}\n")
    done = land(shop.folder, shop.silver, "2026-01-05", str(file))
    assert done.returncode == 1
    assert done.stderr.strip() == f"lakehouse: {shop.silver} has no landing folder; name a bronze dataset"
