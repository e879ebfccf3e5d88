"""One dataset's turn of maintenance, as the ledger remembers it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.ledger import maintenance_turns as ledger
from lakehouse.steps import LeaseHeld


@contextmanager
def turn(dataset: str) -> Iterator[None]:
    """Note how the block ends: it did what was needed, was put off as somebody is writing, or failed."""
    ledger.begin(dataset)
    try:
        yield
    except LeaseHeld as held:
        ledger.end(dataset, f"put off: {held}")
        raise
    except BaseException as error:
        told = str(error).strip() or type(error).__name__
        ledger.end(dataset, f"failed: {told.splitlines()[0]}")  # Spark's errors go on for a page
        raise
    ledger.end(dataset, ledger.DONE)
