"""The one evaluator of SLAs: from contracts, coverage and a given time to what is met, awaited and missed.

Pure: it reads no clock, no table and no ledger. Whoever asks, the same facts give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from itertools import islice
from typing import Literal
from zoneinfo import ZoneInfo

from lakehouse.causes import Cause
from lakehouse.contracts.model import Contract
from lakehouse.contracts.sla import Severity
from lakehouse.intervals import Coverage, Interval
from lakehouse.naming import dag_id, digest

# An older interval that is missing was reported when it fell due, and stays open in the ledger until it arrives;
# only after a longer sleep of the watch does this leave anything out, and then the newer ones tell the same story.
MOST_INTERVALS = 200
# A table whose contract says nothing else may be this much older than its schedule's period.
FRESH_SLACK = timedelta(hours=2)


class Kind(StrEnum):
    """What was promised."""

    READY = "ready"  # an interval is there in time
    FRESH = "fresh"  # the table is not older than it may be
    HEARTBEAT = "heartbeat"  # the watch looks
    MAINTENANCE = "maintenance"  # the tables have their turns of it


class State(StrEnum):
    """Where an interval that has ended stands."""

    MET = "met"
    WAITING = "waiting"  # not there, not due
    MISSED = "missed"
    EXEMPT = "exempt"  # not there, and due before the SLA was in force
    FREE = "free"  # not there, and nothing is promised


@dataclass(frozen=True)
class Verdict:
    """What the evaluator says of one interval of one dataset."""

    dataset: str
    interval: Interval
    due: datetime | None
    state: State
    lag: timedelta  # how long past due; negative: how long until then
    kind: Kind = Kind.READY

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        return {
            "dataset": self.dataset,
            "kind": str(self.kind),
            "interval_start": self.interval.start.isoformat(),
            "interval_end": self.interval.end.isoformat(),
            "due": self.due.isoformat() if self.due else None,
            "state": str(self.state),
            "lag_seconds": int(self.lag.total_seconds()) if self.due and self.state is not State.MET else None,
        }


@dataclass(frozen=True)
class Miss:
    """An interval that was not there when it was due, or whose run has failed before."""

    dataset: str
    interval: Interval
    due: datetime
    opened_at: datetime
    kind: Kind = Kind.READY
    cause: Cause | None = None
    detail: str = ""
    root: str = ""  # the dataset, or the service, that is to blame
    root_interval: str = ""  # of a dataset
    behind: str = ""  # the alert that tells of it
    freed_at: datetime | None = None  # when what it waited behind was gone
    told_at: datetime | None = None  # when it got an alert of its own, and what that said:
    severity: Severity = "critical"
    blocks: tuple[str, ...] = ()
    link: str = ""

    path: tuple[tuple[str, str], ...] = ()  # the inputs on the way to the root, each with the interval that it lacks
    known_as: str = ""  # in the ledger

    @property
    def of_service(self) -> bool:
        """Whether a service is to blame, and so for more than this dataset."""
        return bool(self.root) and not self.root_interval

    @property
    def alert_id(self) -> str:
        """The same miss has the same id, whoever finds it and however often, also when its schedule has changed."""
        mark = digest([self.kind, self.dataset, self.interval.start.isoformat()])
        return self.known_as or f"sla-{dag_id(self.dataset)}-{self.interval.start:%Y%m%dT%H%M%S}-{mark}"


def evaluate(
    contract: Contract, held: Coverage, since: datetime, now: datetime, floor: date | None = None
) -> list[Verdict]:
    """The newest interval that has ended, and every other that falls due while the promise is in force; newest first.

    The promise is in force `since` then; `floor` is the first day of the whole platform, whatever the contract says.
    """
    found: list[Verdict] = []
    for interval in islice(ended(contract, now, floor), MOST_INTERVALS):
        verdict = _judge(contract, interval, held, since, now)
        if found and (verdict.due is None or verdict.due <= since):
            break
        found.append(verdict)
    return found


def freshness(contract: Contract, held: Coverage, since: datetime, now: datetime) -> Verdict | None:
    """Whether the table is as fresh as promised; None where it holds nothing, or need not hold more."""
    if held.end is None:
        return None
    awaited = contract.interval_after(held.end)
    due = _stale_at(contract, held.end, awaited)
    if due is None or not has_interval(contract, awaited):
        return None
    state = State.MET if now <= due else State.MISSED if due > since else State.EXEMPT
    return Verdict(contract.dataset, awaited, due, state, now - due, Kind.FRESH)


def _stale_at(contract: Contract, newest: datetime, awaited: Interval) -> datetime | None:
    if contract.sla.fresh_within is not None:
        return newest + contract.sla.fresh_within
    due = contract.due(awaited)
    return due and max(due, newest + (awaited.end - awaited.start) + FRESH_SLACK)


def ended(contract: Contract, now: datetime, floor: date | None = None) -> Iterator[Interval]:
    """The contract's intervals that have ended by now, newest first."""
    first = _first(contract, floor)
    interval = contract.interval_ending_by(_newest_moment(contract, now))
    while interval.start >= first:
        if has_interval(contract, interval):
            yield interval
        interval = contract.interval_before(interval)


def _first(contract: Contract, floor: date | None) -> datetime:
    """Nothing is asked of the time before."""
    return datetime.combine(max(contract.start, floor or contract.start), time.min, ZoneInfo(contract.timezone))


def has_interval(contract: Contract, interval: Interval) -> bool:
    """Whether the interval begins before the contract's end."""
    return contract.end is None or interval.start < datetime.combine(
        contract.end, time.min, ZoneInfo(contract.timezone)
    )


def arrived_or_withdrawn(
    miss: Miss, contract: Contract | None, held: Coverage, floor: date | None = None
) -> Literal["arrived", "withdrawn"] | None:
    """Why an open miss is over, or None while it is not."""
    fresh_again = miss.kind is Kind.FRESH and held.end is not None and held.end >= miss.interval.end
    if miss.interval in held or fresh_again:
        return "arrived"
    return None if contract and _promised(contract, miss, floor) else "withdrawn"


def _promised(contract: Contract, miss: Miss, floor: date | None) -> bool:
    """Whether the contract still asks for what was missed."""
    if miss.kind is Kind.FRESH:
        due = _stale_at(contract, miss.interval.start, miss.interval)
    else:
        due = contract.due(miss.interval)
    return due is not None and has_interval(contract, miss.interval) and miss.interval.start >= _first(contract, floor)


def _newest_moment(contract: Contract, now: datetime) -> datetime:
    """Now, or for a contract that ended long ago a time soon after its last interval, so that few are looked at."""
    if contract.end is None:
        return now
    stop = datetime.combine(contract.end, time.min, ZoneInfo(contract.timezone))
    span = timedelta(hours=1)
    while stop + span < now and has_interval(contract, contract.interval_ending_by(stop + span)):
        span *= 2
    return min(now, stop + span)


def _judge(contract: Contract, interval: Interval, held: Coverage, since: datetime, now: datetime) -> Verdict:
    due = contract.due(interval)
    if interval in held:
        state = State.MET
    elif due is None:
        state = State.FREE
    elif now <= due:
        state = State.WAITING
    else:
        state = State.MISSED if due > since else State.EXEMPT
    return Verdict(contract.dataset, interval, due, state, lag=now - due if due else timedelta())
