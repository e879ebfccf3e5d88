"""The pipeline of one dataset, run by run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from .datasets import DATASETS, Dataset
from .feed import Change, difference
from .landing import File, Landing
from .reading import Judged, Rejected, Row, judge
from .records import records
from .silver import Changes, Events, Silver, Snapshots

OUTCOMES = ("inserted", "updated", "deleted", "unchanged", "superseded", "duplicate", "quarantined")


@dataclass(frozen=True)
class Run:
    """What one run does: files taken, counts (None where one of them is a correction), and the change feed."""

    day: date
    taken: tuple[str, ...]
    counts: dict[str, int] | None
    feed: tuple[Change, ...]


class Oracle:
    """The right answers for a dataset of the sample shop: tell it the runs in the order in which they happen."""

    def __init__(self, dataset: str, bucket: str = "landing") -> None:
        self.dataset, self.bucket = DATASETS[dataset], bucket
        self.landing = Landing(days_may_repeat=self.dataset.days_may_repeat)
        self.table = table_of(self.dataset)
        self.bronze: dict[date, int] = {}
        self.rejected: dict[date, list[Rejected]] = {}
        self.runs: list[Run] = []

    @property
    def silver(self) -> dict[Any, Row]:
        """The rows by key; those of events by (day of the interval, the event's id)."""
        return self.table.rows

    @property
    def quarantine(self) -> list[Rejected]:
        """What the current files hold that breaks a rule."""
        return sorted(found for day in self.rejected.values() for found in day)

    def run(self, day: date, folder: Mapping[str, bytes]) -> Run | None:
        """Bronze and silver of a day, whose landing folder holds these files now; None where there is nothing to do."""
        found = self.landing.take(day, folder)
        taken = [file for file in found if file.repeats is None]
        corrected = any(file.version > 1 for file in found)
        if day in self.bronze and not taken and not corrected:
            return None
        self.bronze[day] = self.bronze.get(day, 0) + sum(len(self.judge(file)) for file in taken)
        before = self.silver
        counts = self.clean(day)
        feed = () if self.dataset.delivers == "events" else tuple(difference(before, self.silver))
        self.runs.append(Run(day, tuple(file.key for file in taken), None if corrected else counts, feed))
        return self.runs[-1]

    def clean(self, day: date) -> dict[str, int]:
        """Bring what a day's current files hold to silver and quarantine, and count it."""
        found = [judged for file in self.landing.current(day) for judged in self.judge(file)]
        accepted, rejected = [f for f in found if not f.reasons], [f for f in found if f.reasons]
        self.rejected[day] = [record.rejected for record in rejected]
        counts = self.table.take(day, accepted, rejected)
        return {"rows_in": len(found), **dict.fromkeys(OUTCOMES, 0), **counts, "quarantined": len(rejected)}

    def judge(self, file: File) -> list[Judged]:
        """A file's records, which are its rows of bronze, against their contract."""
        found = records(file.day, f"s3://{self.bucket}/{file.key}", file.data)
        return [judge(self.dataset.shape, record, corrected=file.version > 1) for record in found]


def table_of(dataset: Dataset) -> Silver:
    """An empty silver table."""
    if dataset.delivers == "changes":
        return Changes(dataset.key, dataset.shape.time)
    return Snapshots(dataset.key) if dataset.delivers == "snapshot" else Events(dataset.key)
