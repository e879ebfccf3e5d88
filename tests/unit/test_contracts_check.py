"""`lakehouse contracts check`: every problem in a line, and no catalog needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lakehouse.catalog import catalog_of
from lakehouse.cli.contracts import contracts
from lakehouse.settings import settings
from tests.unit.contract_folder import SILVER, loaded


@pytest.fixture
def check(tmp_path, monkeypatch) -> Iterator[Callable[[], Result]]:
    """`contracts check` on the folder, with no catalog to be found."""
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_CATALOG_URI", "http://127.0.0.1:9")
    for cached in (settings, catalog_of):
        cached.cache_clear()
    yield lambda: CliRunner().invoke(contracts, ["check"])
    for cached in (settings, catalog_of):
        cached.cache_clear()


def test_check_tells_every_problem_in_a_line_and_exits_with_1(tmp_path, check):
    loaded(tmp_path, {"gold/daily.sql": None, "silver/events.yaml": SILVER.replace("day(seen_at)", "day(never)")})
    done = check()
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"{tmp_path}/silver/events.yaml: partition_by[0]: no column 'never'",
        f"{tmp_path}/gold/daily.yaml: sql: there is no daily.sql beside the contract; write the query there",
    ]


def test_check_needs_no_catalog(tmp_path, check):
    loaded(tmp_path)
    done = check()
    assert done.exit_code == 0
    assert done.stdout == "3 contracts, nothing wrong.\n"
    assert "does not answer" in done.stderr
