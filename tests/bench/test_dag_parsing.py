"""How long Airflow takes to parse the DAG files, beside what it takes to import Airflow alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.settings import ROOT

PARSE = ROOT / "tests" / "dags" / "parse.py"
ROUNDS = 3
MANY = 100
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEHOUSE_", "AIRFLOW"))}
    nowhere = f"sqlite:///{tmp_path}/none/airflow.db"
    return {**mine, "AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": nowhere}


@pytest.fixture
def many(tmp_path) -> Path:
    """The project's contracts, and many more like bronze.orders."""
    folder = shutil.copytree(ROOT / "include/contracts", tmp_path / "contracts")
    text = (folder / "bronze" / "orders.yaml").read_text()
    for number in range(MANY):
        copy = text.replace("bronze.orders", f"bronze.copy_{number}").replace("path: orders/", f"path: copy_{number}/")
        (folder / "bronze" / f"copy_{number}.yaml").write_text(copy)
    return folder


def seconds(command: list[str | Path], environment: dict[str, str]) -> float:
    """Of a core's time: parsing waits for nothing, and so a busy machine does not count."""
    before = os.times()
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=240)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_parsing_all_dag_files_beside_importing_airflow(report, environment, many):
    alone = [sys.executable, PARSE, "nothing"]
    own, more = [sys.executable, PARSE, "files"], {**environment, "LAKEHOUSE_CONTRACTS": str(many)}
    rounds = [(seconds(alone, environment), seconds(own, environment), seconds(own, more)) for _ in range(ROUNDS)]
    bare, parsed, crowded = (list(takes) for takes in zip(*rounds, strict=True))
    report.add("a process that imports Airflow's DAG processor", bare)
    report.add("the same, and all DAG files parsed and serialized", parsed)
    report.add(f"the same, with {MANY} contracts more", crowded)
    report.add(
        "each contract more", [(more - few) / MANY * 1000 for more, few in zip(crowded, parsed, strict=True)], "ms"
    )
    report.ratio("DAG files parsed / Airflow alone", parsed, bare)
