"""The project in containers, brought up once for all tests here, and taken down whatever happens."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lakehouse.settings import Settings, settings
from tests.containers.engine import Engine, engine
from tests.containers.images import ensure_images
from tests.containers.project import Project

GOLD_SECONDS = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """An image that is built for the first time takes long."""
    for item in items:
        if "tests/containers" in str(item.path):
            item.add_marker(pytest.mark.containers)
            item.add_marker(pytest.mark.timeout(7200))


@pytest.fixture(scope="session")
def docker() -> Iterator[Engine]:
    with engine() as found:
        yield found


@pytest.fixture(scope="session")
def project(docker, tmp_path_factory) -> Iterator[Project]:
    """`make env && docker compose up` with two workers; the sample's days are on their way to gold."""
    made = Project(docker, tmp_path_factory.mktemp("clone"))
    made.make_env()
    ensure_images(docker, made.folder)
    made.down()  # what a run that was killed has left would not know these secrets
    try:
        made.compose("up", "--detach", "--no-build", "--scale", "spark-worker=2")
        yield made
    finally:
        made.down()


@pytest.fixture(scope="session")
def known(project) -> Settings:
    """The project's settings as this machine has them: the published ports, and the secrets of .env."""
    os.environ["LAKEHOUSE_ENV_FILE"] = str(project.folder / ".env")
    os.environ["LAKEHOUSE_HOME"] = str(project.folder / ".lakehouse")
    settings.cache_clear()
    return settings()


@pytest.fixture(scope="session")
def in_gold(project, known) -> Settings:
    """All of the sample's days are in gold, by Airflow's own doing."""
    said = project.await_end("first-look", GOLD_SECONDS)
    assert "gold.daily_sales" in said
    return known
