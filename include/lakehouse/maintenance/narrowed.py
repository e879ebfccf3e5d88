"""A step as it may be taken now: a plan may be old, and its contract or the table another by now."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pyiceberg.table.metadata import TableMetadata

from lakehouse.contracts.model import Bronze, Contract
from lakehouse.jobs import Call
from lakehouse.maintenance.expiry import bounds
from lakehouse.maintenance.old_rows import limit as limit_of_rows
from lakehouse.maintenance.planned import orphans_before
from lakehouse.maintenance.step import Step


def narrowed(step: Step, contract: Contract, metadata: TableMetadata, now: datetime) -> Step:
    """The step, taking away no more than the plan says, nor than the contract allows by now; others as they are."""
    if step.rows_from is not None:
        allowed = limit_of_rows(contract, step.table, now)
        return step.model_copy(update={"rows_from": min(step.rows_from, allowed) if allowed else None})
    if step.operation == "clear_landing":
        return _files(step, contract, now)
    if step.call is None:
        return step
    if step.operation == "expire_snapshots":
        limit, last = bounds(metadata, contract.retention, now)
        last = max(last, step.call.retain_last or 0)
        return _with(step, older_than=_older(step.call, limit), retain_last=last)
    if step.operation == "remove_orphan_files":
        limit = orphans_before(contract.maintenance, now)
        return _with(step, older_than=_older(step.call, limit), dry_run=True)
    return step


def _files(step: Step, contract: Contract, now: datetime) -> Step:
    """What one of plan and contract would only archive is not deleted."""
    source = contract.source if isinstance(contract, Bronze) else None
    if source is None or source.kept is None or step.taken_before is None:
        return step.model_copy(update={"taken_before": None})
    archive = step.archive or source.archive_after is not None
    return step.model_copy(update={"taken_before": min(step.taken_before, now - source.kept), "archive": archive})


def _older(call: Call, limit: datetime) -> datetime:
    return min(call.older_than or limit, limit)


def _with(step: Step, **changed: Any) -> Step:
    return step.model_copy(update={"call": step.call.model_copy(update=changed)}) if step.call else step
