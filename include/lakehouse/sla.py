"""The one evaluator of SLAs: from contracts, coverage and a given time to what is met, awaited and missed.

Pure: it reads no clock, no table and no ledger. Whoever asks, the same facts give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from itertools import islice
from zoneinfo import ZoneInfo

from lakehouse.contracts.model import Contract
from lakehouse.intervals import Coverage, Interval
from lakehouse.naming import dag_id, digest

READY = "ready"
# An older interval that is missing was reported when it fell due, and stays open in the ledger until it arrives;
# only after a longer sleep of the watch does this leave anything out, and then the newer ones tell the same story.
MOST_INTERVALS = 200


class State(StrEnum):
    """Where an interval that has ended stands."""

    MET = "met"
    WAITING = "waiting"  # not there, not due
    MISSED = "missed"
    EXEMPT = "exempt"  # not there, and due before the SLA was in force


@dataclass(frozen=True)
class Terms:
    """What is promised, and since when."""

    ready_within: timedelta
    since: datetime


@dataclass(frozen=True)
class Verdict:
    """What the evaluator says of one interval of one dataset."""

    dataset: str
    interval: Interval
    due: datetime
    state: State
    lag: timedelta  # how long past due; negative: how long until then

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        return {
            "dataset": self.dataset,
            "interval_start": self.interval.start.isoformat(),
            "interval_end": self.interval.end.isoformat(),
            "due": self.due.isoformat(),
            "state": str(self.state),
            "lag_seconds": int(self.lag.total_seconds()) if self.state is not State.MET else None,
        }


@dataclass(frozen=True)
class Miss:
    """An interval that was not there when it was due."""

    dataset: str
    interval: Interval
    due: datetime
    opened_at: datetime
    kind: str = READY

    @property
    def alert_id(self) -> str:
        """The same miss has the same id, whoever finds it and however often."""
        mark = digest([self.kind, self.dataset, str(self.interval)])
        return f"sla-{dag_id(self.dataset)}-{self.interval.start:%Y%m%dT%H%M%S}-{mark}"


def evaluate(
    contract: Contract, held: Coverage, terms: Terms, now: datetime, floor: date | None = None
) -> list[Verdict]:
    """The newest interval that has ended, and every other that falls due under the terms; newest first.

    `floor` is the first day of the whole platform, whatever the contract says.
    """
    found: list[Verdict] = []
    for interval in islice(ended(contract, now, floor), MOST_INTERVALS):
        verdict = _judge(contract.dataset, interval, held, terms, now)
        if found and verdict.due <= terms.since:
            break
        found.append(verdict)
    return found


def ended(contract: Contract, now: datetime, floor: date | None = None) -> Iterator[Interval]:
    """The contract's intervals that have ended by now, newest first."""
    zone = ZoneInfo(contract.timezone)
    first = datetime.combine(max(contract.start, floor or contract.start), time.min, zone)
    interval = contract.interval_ending_by(_newest_moment(contract, now))
    while interval.start >= first:
        if has_interval(contract, interval):
            yield interval
        interval = contract.interval_before(interval)


def has_interval(contract: Contract, interval: Interval) -> bool:
    """Whether the interval begins before the contract's end."""
    return contract.end is None or interval.start < datetime.combine(
        contract.end, time.min, ZoneInfo(contract.timezone)
    )


def arrived_or_withdrawn(miss: Miss, contract: Contract | None, held: Coverage) -> str | None:
    """Why an open miss is over, or None while it is not."""
    if miss.interval in held:
        return "arrived"
    if contract is None or not has_interval(contract, miss.interval):
        return "withdrawn"
    return None


def _newest_moment(contract: Contract, now: datetime) -> datetime:
    """Now, or for a contract that ended long ago a time soon after its last interval, so that few are looked at."""
    if contract.end is None:
        return now
    stop = datetime.combine(contract.end, time.min, ZoneInfo(contract.timezone))
    span = timedelta(hours=1)
    while stop + span < now and has_interval(contract, contract.interval_ending_by(stop + span)):
        span *= 2
    return min(now, stop + span)


def _judge(dataset: str, interval: Interval, held: Coverage, terms: Terms, now: datetime) -> Verdict:
    due = interval.end + terms.ready_within
    if interval in held:
        state = State.MET
    elif now <= due:
        state = State.WAITING
    else:
        state = State.MISSED if due > terms.since else State.EXEMPT
    return Verdict(dataset, interval, due, state, lag=now - due)
