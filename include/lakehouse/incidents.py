"""Which misses on-call is told of: one alert for a root, and silence for what waits behind it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from lakehouse.causes import Cause
from lakehouse.contracts.sla import SEVERITIES
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
# The trouble is the DAG's, not one interval's: every later interval would only repeat it.
_OF_DAG = (Cause.DAG_PAUSED, Cause.DAG_MISSING)


def same_trouble(misses: Iterable[Miss]) -> list[list[Miss]]:
    """The misses by their root, late intervals before stale tables."""
    found: dict[tuple[bool, str, str], list[Miss]] = {}
    for miss in misses:
        found.setdefault((miss.kind is Kind.FRESH, miss.root, miss.root_interval), []).append(miss)
    return [found[key] for key in sorted(found, key=lambda key: key[0])]


def teller(group: Sequence[Miss]) -> Miss:
    """Of misses with the same root the one that is told: the root's own, else the gravest."""
    own = (miss for miss in group if (miss.dataset, str(miss.interval)) == (miss.root, miss.root_interval))
    return next(own, None) or min(group, key=lambda miss: SEVERITIES.index(miss.severity))


def covering(miss: Miss, others: Iterable[Miss]) -> Miss | None:
    """The open alert that tells of this miss already, and is as grave.

    That is its root's, that of an input on the way there, or one that has the same root.
    """
    gravity = SEVERITIES.index(miss.severity)
    told = (other for other in others if other.told_at and SEVERITIES.index(other.severity) <= gravity)
    return next((other for other in told if _tells_of(other, miss)), None)


def _tells_of(other: Miss, miss: Miss) -> bool:
    if other.alert_id == miss.alert_id or Kind.HEARTBEAT in (other.kind, miss.kind):
        return False
    if other.dataset == miss.dataset and (miss.kind is Kind.FRESH or (miss.cause in _OF_DAG and _alike(other, miss))):
        return True  # an interval that is late makes its table stale; a paused DAG makes every interval late
    itself = (other.dataset, str(other.interval))
    return itself in miss.path or (miss.root, miss.root_interval) in (itself, (other.root, other.root_interval))


def _alike(other: Miss, miss: Miss) -> bool:
    return (other.cause, other.root) == (miss.cause, miss.root)


def silent_behind(miss: Miss, others: Iterable[Miss]) -> Miss | None:
    """For a stale table: the miss of its own interval, told or not, which says the same."""
    same = (other for other in others if other.dataset == miss.dataset and other.kind is Kind.READY)
    return next(same, None) if miss.kind is Kind.FRESH else None


def is_muted(miss: Miss, muted: Collection[str]) -> bool:
    """Whether nobody wants to hear of it, or of its root."""
    return miss.dataset in muted or miss.root in muted


def may_catch_up(miss: Miss, within: timedelta | None, now: datetime) -> bool:
    """Whether what waited behind a root that is gone may still arrive by itself."""
    if miss.freed_at is None or miss.cause in STUCK:
        return False
    return now <= miss.freed_at + max(within or CATCH_UP, CATCH_UP)
