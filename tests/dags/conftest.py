"""Airflow without any of its services: no database, no server, a home that is thrown away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.settings import ROOT, settings

PARSE = Path(__file__).parent / "parse.py"
OURS = ("LAKEHOUSE_", "AIRFLOW", "SPARK_")
Parsed = dict[str, Any]


@pytest.fixture(scope="session")
def bare(tmp_path_factory) -> dict[str, str]:
    """An environment in which neither this machine's Airflow nor its stack can be found."""
    home = tmp_path_factory.mktemp("airflow")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(OURS)},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/none/airflow.db",
        "LAKEHOUSE_ENV_FILE": str(home / "none.env"),
        "LAKEHOUSE_HOME": str(home / "none"),
    }


@pytest.fixture(scope="session")
def parse(bare) -> Callable[..., Parsed]:
    """Parses all DAG files in a fresh process, under settings given by field name."""

    def run(**given: str) -> Parsed:
        environment = {**bare, **{f"LAKEHOUSE_{name.upper()}": value for name, value in given.items()}}
        done = subprocess.run(
            [sys.executable, PARSE], env=environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def parsed(parse) -> Parsed:
    """What Airflow makes of the project's own contracts."""
    return parse()


@pytest.fixture
def airflow_home(bare, monkeypatch) -> Iterator[None]:
    """The bare environment for this very process: only then may a test import Airflow."""
    for name in [name for name in os.environ if name.startswith(OURS)]:
        monkeypatch.delenv(name)
    for name, value in bare.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    yield
    settings.cache_clear()
