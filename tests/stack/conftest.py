"""A stack of the tests' own: free ports, a temporary home, real services; taken down at the end, whatever happens.

LAKEHOUSE_TEST_STACK=FOLDER keeps it instead: a stack in that folder is used if it runs, started if not, and left
running. The folder may be a clone with a running stack.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from lakehouse.catalog import catalog
from lakehouse.settings import Settings, settings
from tests.stack import tables
from tests.stack.foreign import Source, tasks_of
from tests.stack.harness import Stack
from tests.stack.killing import job, victim  # noqa: F401  # fixtures
from tests.stack.landing_world import folders  # noqa: F401  # a fixture
from tests.stack.shop import Shop
from tests.stack.watched import database, dataset, nobody, receiver  # noqa: F401  # fixtures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def extra_settings() -> dict[str, str]:
    """Settings of the stack besides its ports, by field name."""
    own = {"sample": "false", "spark_driver_memory": "1500m", "task_retries": "1"}
    return own | {"maintenance_pause_seconds": "1"}


@pytest.fixture(scope="session")
def running(extra_settings) -> Iterator[Stack]:
    """The stack with its data services up: PostgreSQL, MinIO, catalog, Spark Connect."""
    kept = os.environ.get("LAKEHOUSE_TEST_STACK")
    folder = Path(kept or tempfile.mkdtemp(prefix="lakehouse-test-"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "contracts").mkdir(exist_ok=True)
    found = Stack(folder, contracts=str(folder / "contracts"), **extra_settings)
    os.environ.update(found.environment)
    settings.cache_clear()
    try:
        found.lakehouse("up", "--only", "data")
        settings.cache_clear()
        yield found
    finally:
        if not kept:
            found.lakehouse("down", check=False)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def stack(running) -> Settings:
    """Settings of the running data services; this process reads them too."""
    return settings()


@pytest.fixture(scope="session")
def airflow(running, stack) -> Settings:
    """The same stack, with Airflow up as well."""
    running.lakehouse("up", "--only", "airflow")
    return stack


@pytest.fixture
def private_stack(tmp_path) -> Iterator[Stack]:
    """A stack for one test, nothing of it started."""
    found = Stack(tmp_path, sample="false")
    yield found
    found.lakehouse("down", check=False)


@pytest.fixture(scope="module")
def spark(stack) -> Iterator[SparkSession]:
    """A warm session on the Connect server, for jobs that a module's tests run in their own process."""
    from spark_jobs.session import connect

    session = connect(str(uuid4()))
    yield session
    session.stop()


@pytest.fixture
def shop(stack, tmp_path) -> Iterator[Shop]:
    """A shop of the test's own that sells orders."""
    opened = Shop.open(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def tasks(stack, tmp_path) -> Iterator[Source]:
    """Changes of tasks from elsewhere, with a feed, by contracts of the test's own."""
    opened = tasks_of(tmp_path)
    yield opened
    opened.shop.close()


@pytest.fixture
def name(stack) -> Iterator[str]:
    """An empty table of the test's own."""
    made = f"bronze.test_{uuid4().hex[:8]}"
    tables.make(made)
    yield made
    catalog().drop_table(made)
