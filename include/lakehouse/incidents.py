"""Which misses on-call is told of: one alert for a root, and silence for what waits behind it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from lakehouse.causes import Cause
from lakehouse.sla import Kind, Miss

# What waited behind a root gets this long once the root is there, or as long as it has after its interval's end.
CATCH_UP = timedelta(minutes=15)
# Waiting mends none of these.
STUCK = (
    Cause.TASK_FAILED,
    Cause.GATE_FAILED,
    Cause.PUBLISHED_NOTHING,
    Cause.ROLLED_BACK,
    Cause.DAG_PAUSED,
    Cause.DAG_MISSING,
)


def covering(miss: Miss, others: Iterable[Miss]) -> Miss | None:
    """The open alert that tells of this miss already: its root's, or one that has the same root."""
    return next((other for other in others if other.told_at and _tells_of(other, miss)), None)


def _tells_of(other: Miss, miss: Miss) -> bool:
    if other.alert_id == miss.alert_id or Kind.HEARTBEAT in (other.kind, miss.kind):
        return False
    if miss.kind is Kind.FRESH and other.dataset == miss.dataset:
        return True  # an interval that is late makes its table stale: the same news
    root, of_other = (miss.root, miss.root_interval), (other.root, other.root_interval)
    return root in (of_other, (other.dataset, str(other.interval)))


def silent_behind(miss: Miss, others: Iterable[Miss]) -> Miss | None:
    """For a stale table: the miss of its own interval, told or not, which says the same."""
    same = (other for other in others if other.dataset == miss.dataset and other.kind is Kind.READY)
    return next(same, None) if miss.kind is Kind.FRESH else None


def is_muted(miss: Miss, muted: Collection[str]) -> bool:
    """Whether nobody wants to hear of it, or of its root."""
    return miss.dataset in muted or miss.root in muted


def may_catch_up(miss: Miss, freed_at: datetime | None, within: timedelta | None, now: datetime) -> bool:
    """Whether what waited behind a root that is there now may still arrive by itself."""
    if freed_at is None or miss.cause in STUCK:
        return False
    return now <= freed_at + max(within or CATCH_UP, CATCH_UP)
