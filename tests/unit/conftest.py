"""Unit tests read the project's own settings, not those of a stack that other tests of this run have started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lakehouse.settings import PREFIX, settings

if TYPE_CHECKING:
    from pyiceberg.table import Table


@pytest.fixture(autouse=True)
def own_settings(monkeypatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(PREFIX):
            monkeypatch.delenv(name)
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture
def table(tmp_path) -> Table:
    """Six versions that a writer made, each with a file more than the one before."""
    from tests.unit.iceberg_tables import with_versions

    return with_versions(tmp_path, 6)
