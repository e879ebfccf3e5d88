"""Puts the sample's files where the platform looks for them: once, or day by day as the days end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from lakehouse.errors import LakehouseError
from lakehouse.sample.generator import DATASETS, MARKER, folder, folder_files
from lakehouse.sample.recipe import DRIFT_FROM, Recipe
from lakehouse.settings import settings

# A source takes a moment to close its files after midnight.
GRACE = timedelta(seconds=30)
# How long a service that is asked to stop may take to notice while it waits.
STEP_SECONDS = 1.0
RETRY_SECONDS = 30.0


class Store(Protocol):
    """Somewhere to put files."""

    def has(self, key: str) -> bool:
        """Is there a file of that key?"""

    def put(self, key: str, data: bytes) -> None:
        """Write a file, over whatever is there."""


class FolderStore:
    """A local folder in place of the landing bucket."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def has(self, key: str) -> bool:
        """Is there a file of that key?"""
        return (self.root / key).exists()

    def put(self, key: str, data: bytes) -> None:
        """Write a file, over whatever is there."""
        path = self.root / key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise LakehouseError(f"Cannot write {path}: {error.strerror}.") from error


class LandingStore:
    """The landing bucket of the settings."""

    def has(self, key: str) -> bool:
        """Is there an object of that key?"""
        return self._call("head_object", key, absent={"404", "NoSuchKey", "NotFound"})

    def put(self, key: str, data: bytes) -> None:
        """Write an object, over whatever is there."""
        self._call("put_object", key, Body=data)

    def _call(self, method: str, key: str, *, absent: Collection[str] = (), **arguments: Any) -> bool:
        """One request; False where the answer is one of those that say there is nothing."""
        # Heavy imports, and a generator that writes to a folder needs none of them.
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        from lakehouse.store import client  # noqa: PLC0415

        given = settings()
        try:
            getattr(client(), method)(Bucket=given.landing_bucket, Key=key, **arguments)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in absent:
                return False
            where = f"{given.landing_bucket}/{key}"
            raise LakehouseError(f"The object store at {given.s3_endpoint} refused {where}: {code}.") from error
        except (BotoCoreError, ValueError) as error:
            kind = type(error).__name__
            raise LakehouseError(f"The object store at {given.s3_endpoint} cannot be reached: {kind}.") from error
        return True


def deliver(
    first: date,
    last: date,
    *,
    scale: float = 1.0,
    seed: int = 7,
    dirt: Collection[str] | None = None,
    drift_from: date = DRIFT_FROM,
    store: Store | None = None,
) -> int:
    """Write the landing files of the days first to last, and return how many files were written, markers included.

    A folder whose marker exists is left alone, and a marker is written after all else in its folder: so a delivery
    may be repeated, also after it was cut short. Dirt None is DEFAULT_DIRT.
    """
    recipe = Recipe.of(scale, seed, dirt, drift_from)
    return sum(written for _, written in deliver_days(first, last, recipe, store or LandingStore()))


def deliver_days(first: date, last: date, recipe: Recipe, store: Store) -> Iterator[tuple[date, int]]:
    """Deliver as `deliver` does, day by day, telling after each how many files were written."""
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        yield day, sum(_deliver_folder(dataset, day, recipe, store) for dataset in DATASETS)


def follow(
    recipe: Recipe,
    store: Store,
    *,
    start: date | None,
    stopping: Callable[[], bool],
    tell: Callable[[str], None],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Deliver each day soon after it has ended, and first those missed since the start, until asked to stop.

    Without a start, yesterday is the first day. A store that fails is tried again: a service outlives its neighbours.
    """
    first = start or _last_finished(now())
    while not stopping():
        last = _last_finished(now())
        until = datetime.combine(last + timedelta(days=2), datetime.min.time(), UTC) + GRACE
        try:
            for day, written in deliver_days(first, last, recipe, store):
                if written:
                    tell(f"Delivered {day}: {written} files.")
                first = day + timedelta(days=1)
                if stopping():
                    return
        except LakehouseError as error:
            until = now() + timedelta(seconds=RETRY_SECONDS)
            tell(f"{error} Trying again in {RETRY_SECONDS:.0f} s.")
        while not stopping() and now() < until:
            sleep(STEP_SECONDS)


def _last_finished(now: datetime) -> date:
    """The newest UTC day that is over, and whose files are closed."""
    return (now - GRACE).astimezone(UTC).date() - timedelta(days=1)


def _deliver_folder(dataset: str, day: date, recipe: Recipe, store: Store) -> int:
    """Write one dataset's files of a day unless they are there; tells how many were written."""
    if store.has(folder(dataset, day) + MARKER):
        return 0
    files = list(folder_files(dataset, day, recipe))
    for key, data in files:
        store.put(key, data)
    return len(files)
