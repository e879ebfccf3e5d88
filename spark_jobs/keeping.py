"""Frames that a job computes once and uses more than once. The server would keep them, and their plans, for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark.sql import DataFrame

_KEPT: ContextVar[list[DataFrame]] = ContextVar("kept")


def kept(frame: DataFrame) -> DataFrame:
    """The frame, kept until the job's end."""
    frame.persist()
    _KEPT.get().append(frame)
    return frame


@contextmanager
def keeping() -> Iterator[None]:
    """While a job runs: what it keeps is given back at its end, whatever that is."""
    token = _KEPT.set([])
    try:
        yield
    finally:
        for frame in reversed(_KEPT.get()):
            frame.unpersist()
        _KEPT.reset(token)
