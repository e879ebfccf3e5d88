"""Which datasets a backfill takes, in which order, and which of their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from croniter import croniter

from lakehouse.contracts.model import AnyContract, Contract
from lakehouse.intervals import Interval
from lakehouse.sla import has_interval

Contracts = Mapping[str, AnyContract]


def in_order(contracts: Contracts, dataset: str, *, upstream: bool, downstream: bool) -> list[AnyContract]:
    """The dataset, with what it is made from and what is made from it, if asked for; each after all its inputs."""
    chosen = {dataset}
    if upstream:
        chosen |= _above(contracts, dataset)
    if downstream:
        chosen |= {name for name in contracts if dataset in _above(contracts, name)}
    return [contracts[name] for name in _sorted(contracts) if name in chosen]


def _above(contracts: Contracts, dataset: str) -> set[str]:
    """All that a dataset is made from."""
    found: set[str] = set()
    pending = [dataset]
    while pending:
        fresh = set(contracts[pending.pop()].inputs) - found
        found |= fresh
        pending += [name for name in fresh if name in contracts]
    return found & contracts.keys()


def _sorted(contracts: Contracts) -> Iterator[str]:
    """Every dataset after those that it is made from. Contracts go in no circle."""
    told: set[str] = set()
    while len(told) < len(contracts):
        ready = [
            name
            for name, contract in contracts.items()
            if name not in told and not (contracts.keys() & set(contract.inputs)) - told
        ]
        yield from ready
        told |= set(ready)


def overlapping(contract: Contract, span: Interval, now: datetime) -> list[Interval]:
    """The contract's intervals that have ended and share some time with the span, oldest first."""
    zone = ZoneInfo(contract.timezone)
    first = datetime.combine(contract.start, time.min, zone)
    last_moment = (span.end - timedelta(microseconds=1)).astimezone(zone)
    end_of_last = croniter(contract.schedule, last_moment).get_next(datetime)
    found: list[Interval] = []
    interval = contract.interval_ending_by(min(now, end_of_last))
    while interval.end > span.start and interval.start >= first:
        if has_interval(contract, interval):
            found.append(interval)
        interval = contract.interval_before(interval)
    return found[::-1]


def beginning_in(contract: Contract, span: Interval, now: datetime) -> list[Interval]:
    """The contract's intervals that have ended and begin within the span, oldest first."""
    return [one for one in overlapping(contract, span, now) if span.start <= one.start]


def overlap(one: Interval, other: Interval) -> bool:
    return one.start < other.end and other.start < one.end
