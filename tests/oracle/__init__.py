"""The right answers for the sample shop, worked out from the bytes of its landing files alone.

Plain Python, and nothing of lakehouse or spark_jobs: a mistake made there cannot be made here too. What the contracts
say is written out by hand in datasets.py and gold.py.

    shop = Oracle("orders")
    shop.run(monday, {"orders/2026-01-05/part-0000.jsonl": b"…"})     # the day's folder as it is when the run begins
    shop.run(monday, {"orders/2026-01-05/part-0000.jsonl": b"… …"})   # the same key with other bytes: a correction
    shop.bronze, shop.silver, shop.quarantine                         # as they are after these runs
    shop.runs[1].counts, shop.runs[1].feed                            # what a run did
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date

from .datasets import DATASETS
from .feed import Change, replayed
from .gold import Sale, Session, click_sessions, daily_sales
from .reading import Rejected, Row
from .records import Record, records
from .runs import OUTCOMES, Oracle, Run

__all__ = [
    "DATASETS",
    "OUTCOMES",
    "Change",
    "Oracle",
    "Record",
    "Rejected",
    "Result",
    "Row",
    "Run",
    "Sale",
    "Session",
    "click_sessions",
    "daily_sales",
    "dated",
    "oracle",
    "records",
    "replayed",
]


@dataclass
class Result:
    """Everything that should come of orders; `batches` holds each day's counts, for days taken in order."""

    bronze: dict[date, int] = field(default_factory=dict)
    silver: dict[int, Row] = field(default_factory=dict)
    quarantine: list[Rejected] = field(default_factory=list)
    gold: list[Sale] = field(default_factory=list)
    batches: dict[date, dict[str, int]] = field(default_factory=dict)


def dated(files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[date, str, bytes]]:
    """Landing files with the day of their folder: dataset/yyyy-mm-dd/name."""
    for key, data in files:
        yield date.fromisoformat(key.split("/")[1]), key, data


def oracle(files: Iterable[tuple[date, str, bytes]], bucket: str = "landing") -> Result:
    """What becomes of orders whose days are run once each, in order, given as (day of the interval, key, bytes)."""
    folders: dict[date, dict[str, bytes]] = defaultdict(dict)
    for day, key, data in files:
        if key.startswith("orders"):
            folders[day][key] = data
    shop = Oracle("orders", bucket)
    for day in sorted(folders):
        shop.run(day, folders[day])
    batches = {run.day: run.counts for run in shop.runs if run.counts is not None}
    return Result(shop.bronze, shop.silver, shop.quarantine, daily_sales(shop.silver.values()), batches)
