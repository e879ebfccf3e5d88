"""Unit tests read the project's own settings, not those of a stack that other tests of this run have started."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lakehouse.settings import PREFIX, settings


@pytest.fixture(autouse=True)
def own_settings(monkeypatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(PREFIX):
            monkeypatch.delenv(name)
    settings.cache_clear()
    yield
    settings.cache_clear()
