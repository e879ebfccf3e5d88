"""What a backfill is asked for, and how its outcome is told. Pure: no Airflow, no database."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, tzinfo
from typing import Any, Literal

from lakehouse.backfill.days import moment
from lakehouse.errors import LakehouseError

Reprocess = Literal["none", "failed", "completed"]
SUCCESS, FAILED, GONE = "success", "failed", "gone"
FINISHED = (SUCCESS, FAILED, GONE)


class Refused(LakehouseError):
    """The backfill cannot be made; one sentence says why, and what to do."""


@dataclass(frozen=True)
class Request:
    """A backfill as asked for: logical dates from `first` to `last`, both included."""

    dag_id: str
    first: datetime
    last: datetime
    reprocess: Reprocess
    backwards: bool
    max_active_runs: int | None
    conf: dict[str, Any] | None

    @classmethod
    def of(cls, args: Namespace, zone: tzinfo) -> Request:
        """Read the command line; days are days of the DAG's time zone."""
        first, last = args.start_date or args.end_date, args.end_date or args.start_date
        if not first:
            raise Refused("say which days: -s 2026-01-01 -e 2026-01-07")
        request = cls(
            dag_id=args.dag_id,
            first=moment(first, zone),
            last=moment(last, zone, end=True),
            reprocess="completed" if args.reset_dagruns else "failed" if args.rerun_failed_tasks else "none",
            backwards=args.run_backwards,
            max_active_runs=args.max_active_runs,
            conf=_conf(args.conf),
        )
        if request.first > request.last:
            raise Refused(f"the start date {first} is after the end date {last}")
        return request


@dataclass(frozen=True)
class Day:
    """One logical date of a backfill, and the state of its run."""

    logical_date: datetime
    state: str
    run_id: str = ""
    skipped: str = ""  # why Airflow made no run of its own for this day

    @property
    def name(self) -> str:
        """The day, with the time where it is not midnight."""
        midnight = self.logical_date.time() == time.min
        return f"{self.logical_date:%Y-%m-%d}" if midnight else f"{self.logical_date:%Y-%m-%dT%H:%M}"


def finished(days: Sequence[Day]) -> bool:
    return all(day.state in FINISHED for day in days)


def progress(days: Sequence[Day]) -> str:
    """One line: how many days are done, and where the others are."""
    counts = Counter(day.state for day in days)
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return f"{sum(counts[state] for state in FINISHED)} of {len(days)} done: {states}"


def verdict(days: Sequence[Day]) -> str | None:
    """What is wrong with the outcome, in one sentence; None when every day succeeded."""
    bad = [day for day in days if day.state != SUCCESS]
    if not bad:
        return None
    told = f"{len(bad)} of {len(days)} days did not succeed: {', '.join(day.name for day in bad)}"
    return f"{told}; run them again with --rerun-failed-tasks"


def _conf(text: str | None) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise Refused(f"--conf is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refused('--conf must be a JSON object, such as {"key": "value"}')
    return found
