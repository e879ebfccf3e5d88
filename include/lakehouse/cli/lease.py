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
    from lakehouse import steps
    from lakehouse.plan import Attempt

    attempt = Attempt(f"cli/{getpass.getuser()}/{uuid4().hex}", 1)
    with steps.leased(dataset, attempt):
        yield attempt
