"""What a backfill will cost, judged by what the ledger knows of earlier batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import median

from lakehouse.batch import Batch
from lakehouse.intervals import Interval
from lakehouse.wording import size

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Estimate:
    """Rows read, bytes written, seconds of work; None where no batch tells."""

    rows: float | None = None
    bytes: float | None = None
    seconds: float | None = None

    def cells(self) -> tuple[str, str, str]:
        """As people read it: rows, bytes, minutes."""
        return (
            UNKNOWN if self.rows is None else f"{round(self.rows):,}",
            UNKNOWN if self.bytes is None else size(self.bytes),
            UNKNOWN if self.seconds is None else f"{self.seconds / 60:.1f}",
        )


def estimate(intervals: Collection[Interval], known: Sequence[Batch]) -> Estimate:
    """The cost of these intervals: each as when it was built last, else as the median of the others.

    `known` are the dataset's batches, newest first.
    """
    last: dict[Interval, Batch] = {}
    for batch in known:
        if batch.of_interval and batch.measures:
            last.setdefault(batch.interval, batch)
    return Estimate(
        rows=_total(intervals, last, lambda batch: float(batch.counts.get("rows_in", 0))),
        bytes=_total(intervals, last, lambda batch: batch.measures.get("bytes_out", 0.0)),
        seconds=_total(intervals, last, _seconds),
    )


def _total(
    intervals: Collection[Interval], last: dict[Interval, Batch], measure: Callable[[Batch], float]
) -> float | None:
    if not last:
        return None
    usual = median(measure(batch) for batch in last.values())
    return sum(measure(last[one]) if one in last else usual for one in intervals)


def _seconds(batch: Batch) -> float:
    return sum(value for name, value in batch.measures.items() if name.endswith("_s"))
