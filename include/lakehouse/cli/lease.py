"""The lease of a dataset, for as long as a command writes it."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from lakehouse.plan import Attempt


@contextmanager
def leased(dataset: str) -> Iterator[Attempt]:
    """Hold the dataset's lease; refused where a run is writing it."""
    from lakehouse.ledger import leases
    from lakehouse.plan import Attempt
    from lakehouse.steps import take_lease

    attempt = Attempt(f"cli/{getpass.getuser()}/{uuid4().hex}", 1)
    take_lease(dataset, attempt)
    try:
        with leases.kept(dataset, attempt.run, attempt.id):
            yield attempt
    finally:
        leases.release(dataset, attempt.run, attempt.id)
