"""Looking at a dataset before its plan is made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from pyiceberg.table.metadata import TableMetadata

from lakehouse.catalog import coverage, table
from lakehouse.contracts.load import loaded
from lakehouse.contracts.model import AnyContract, Bronze, Contract
from lakehouse.health.inspected import Inspected, inspect
from lakehouse.intervals import Coverage
from lakehouse.ledger import maintenance as log
from lakehouse.ledger.landing_gone import Span
from lakehouse.maintenance.expiry import bounds, expirable
from lakehouse.maintenance.landing_files import Clearing, clearing
from lakehouse.maintenance.old_rows import going, limit
from lakehouse.maintenance.orphans import refusal
from lakehouse.maintenance.planned import Seen, orphans_due, plan
from lakehouse.maintenance.readers import not_yet_taken
from lakehouse.maintenance.step import Plan
from lakehouse.table_properties import wanted

_EXPIRED_AT_ONCE = 300


def plans(contract: AnyContract, now: datetime, only: str | None = None) -> Iterator[tuple[Inspected, Plan]]:
    """Each of the dataset's tables that is there, or only one of them: how it is, and what it needs."""
    open_from = still_open(contract, coverage(table(contract.dataset)))
    for name in contract.tables:
        inspected = inspect(name, contract, now) if only in (None, name) else None
        if inspected:
            yield inspected, plan(_seen(inspected, open_from, now))


def still_open(contract: Contract, covered: Coverage) -> datetime | None:
    """From when on partitions are still being written: after the newest interval that is there. None: none is.

    A contract that has ended gets no more intervals.
    """
    if contract.end is None or covered.end is None:
        return covered.end
    over = covered.end.astimezone(ZoneInfo(contract.timezone)).date() >= contract.end
    return None if over else covered.end


def _seen(one: Inspected, open_from: datetime | None, now: datetime) -> Seen:
    found = table(one.name)
    if found is None:
        return Seen(one.name, one.contract, one.health, now)
    done = log.last_done(one.name)
    due = orphans_due(one.contract.maintenance, done, now)
    old = going(one.health, limit(one.contract, one.name, now))
    until, last = bounds(found.metadata, one.contract.retention, now)
    past = expirable(found.metadata, until, last, now)
    return Seen(
        name=one.name,
        contract=one.contract,
        health=one.health,
        now=now,
        open_from=open_from,
        expirable=past,
        expire_until=expire_until(found.metadata, until, past),
        properties=found.properties,
        wanted=wanted(one.contract, one.name),
        last_done=done,
        orphans_refused=refusal(one.name, found) if due else "",
        going=old,
        rows_held=not_yet_taken(one.name, old.before, loaded()) if old else "",
        clearing=_landing(one.contract, now),
    )


def expire_until(metadata: TableMetadata, limit: datetime, count: int) -> tuple[datetime, ...]:
    """Moments by which so many versions from before a limit expire some hundreds at a time."""
    named, before = {ref.snapshot_id for ref in metadata.refs.values()}, limit.timestamp() * 1000
    old = sorted(one.timestamp_ms for one in metadata.snapshots if one.snapshot_id not in named)
    times = [at for at in old if at < before][_EXPIRED_AT_ONCE:count:_EXPIRED_AT_ONCE]
    return tuple(datetime.fromtimestamp(at / 1000, UTC) for at in times)


def _landing(contract: AnyContract, now: datetime) -> Clearing | None:
    """The landing files that are past their time, where they have one."""
    kept = contract.source.kept if isinstance(contract, Bronze) else None
    return clearing(contract, Span(now - kept)) if isinstance(contract, Bronze) and kept is not None else None
