"""The oracle that judges the pipeline: it owes it nothing, knows all of its datasets, and counts every record once."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from lakehouse.contracts import load
from lakehouse.contracts.model import Silver
from lakehouse.sample import DIRT, Recipe
from lakehouse.sample.generator import folder_files
from lakehouse.settings import ROOT
from tests.oracle import DATASETS, OUTCOMES, Oracle
from tests.unit.oracle_shop import DAYS, ran


def foreign(source: str) -> set[str]:
    """What a source imports that is neither Python's own nor its neighbour."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).split(".")[0])
    return found - sys.stdlib_module_names


@pytest.mark.parametrize("file", sorted((ROOT / "tests/oracle").glob("*.py")), ids=lambda file: file.name)
def test_oracle_imports_nothing_that_it_judges(file: Path) -> None:
    assert foreign(file.read_text()) == set()


def test_a_foreign_import_is_found() -> None:
    assert foreign("import lakehouse.x\nfrom spark_jobs.y import z\nfrom .w import v\nimport re") == {
        "lakehouse",
        "spark_jobs",
    }


@pytest.mark.parametrize("name", DATASETS)
def test_oracle_knows_every_column_of_the_contract(name: str) -> None:
    contract, known = load(ROOT / "include/contracts").contracts[f"silver.{name}"], DATASETS[name]
    assert isinstance(contract, Silver)
    assert list(known.shape.columns) == list(contract.columns)
    assert set(known.shape.rules) == set(contract.rules)
    assert (known.delivers, known.shape.late) == (contract.delivers, contract.late_data)
    assert (known.key,) == (contract.key or contract.duplicate_by)


@pytest.mark.parametrize("dataset", DATASETS)
def test_all_counts_balance_though_days_come_out_of_order(dataset: str) -> None:
    shop, recipe = Oracle(dataset), Recipe.of(0.2, 7, DIRT)
    for day in (DAYS[0], DAYS[2], DAYS[1]):
        found = ran(shop.run(day, dict(folder_files(dataset, day, recipe)))).counts or {}
        assert found["rows_in"] == shop.bronze[day] == sum(found[name] for name in OUTCOMES)
    assert sum(shop.bronze.values()) > 0
