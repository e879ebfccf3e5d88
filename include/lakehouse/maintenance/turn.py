"""One dataset's turn of maintenance, as the ledger remembers it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.errors import LakehouseError
from lakehouse.ledger import maintenance_turns as ledger
from lakehouse.steps import LeaseHeld


class PutOff(LakehouseError):
    """The rest of a plan is for another time; so many of its steps were taken, and left so many files unwritten."""

    def __init__(self, why: str, taken: int, unwritten: int = 0) -> None:
        super().__init__(why)
        self.taken = taken
        self.unwritten = unwritten


class Busy(PutOff, LeaseHeld):
    """Somebody is writing."""


class WindowClosed(PutOff):
    """Maintenance runs by itself in some hours only, and these are over."""


@contextmanager
def turn(dataset: str) -> Iterator[None]:
    """Note how the block ends: it did what was needed, was put off, or failed."""
    ledger.begin(dataset)
    try:
        yield
    except PutOff as put_off:
        ledger.end(dataset, f"put off: {put_off}")
        raise
    except BaseException as error:
        told = str(error).strip() or type(error).__name__
        ledger.end(dataset, f"failed: {told.splitlines()[0]}")  # Spark's errors go on for a page
        raise
    ledger.end(dataset, ledger.DONE)
