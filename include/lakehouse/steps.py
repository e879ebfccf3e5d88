"""The steps that every layer's run takes: write → audit → publish, under the dataset's lease."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict

from lakehouse import jobs, naming
from lakehouse.batch import PUBLISHED, Batch, InputFile, TableWrite
from lakehouse.catalog import ref_snapshot, table
from lakehouse.contracts.model import AnyContract
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval
from lakehouse.jobs import AuditJob, BuildJob, CleanJob, IngestJob
from lakehouse.ledger import batches, gates, leases
from lakehouse.plan import Attempt, plan
from lakehouse.publish import MainMoved, drop_branches, publish

log = logging.getLogger(__name__)
RunJob = Callable[[IngestJob | CleanJob | BuildJob | AuditJob], None]
MOST_REWRITES = 5


class LeaseHeld(LakehouseError):
    """Another run is writing the dataset."""


class GateFailed(LakehouseError):
    """The batch was audited and found wanting; main is as it was."""


class Handover(BaseModel):
    """What write hands to audit, and audit to publish."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch: Batch
    job_key: str | None
    properties: dict[str, str]

    @property
    def head(self) -> TableWrite:
        """The write of the dataset's own table."""
        return next(w for w in self.batch.writes if w.table == self.batch.dataset)

    @property
    def files(self) -> tuple[InputFile, ...]:
        """The landing files that the batch takes: too many for Airflow's own database, so they are in the job."""
        if self.job_key is None or naming.layer_of(self.batch.dataset) != "bronze":
            return ()
        job = jobs.taken_over(self.job_key)
        return job.files if isinstance(job, IngestJob) else ()

    def summary(self) -> str:
        """One line for the task's log."""
        counts = " ".join(f"{name}={count}" for name, count in self.batch.counts.items() if count or name == "rows_in")
        return f"{self.batch.batch_id}: {counts} snapshot={self.head.head}"


def take_lease(dataset: str, attempt: Attempt) -> None:
    """Take the dataset's lease, or say who holds it."""
    if not leases.acquire(dataset, attempt.run, attempt.id):
        held = leases.holder(dataset)
        raise LeaseHeld(f"{dataset} is being written by {held.owner if held else 'another run'}")


def write(contract: AnyContract, interval: Interval, attempt: Attempt, run: RunJob) -> Handover | None:
    """Write the interval's batch to a branch of its own; None when main holds all of it already."""
    planned = plan(contract, interval, attempt)
    if planned is None:
        return None
    for name in naming.tables_of(contract.dataset):
        drop_branches(name, naming.branches_of(contract.dataset, interval))
    if planned.job is None:
        base = ref_snapshot(table(contract.dataset))
        nothing = TableWrite(table=contract.dataset, branch="", base=base, head=base)
        batch = planned.batch.model_copy(update={"writes": (nothing,), "counts": {"rows_in": 0}})
        return Handover(batch=batch, job_key=None, properties=planned.properties)
    jobs.hand_over(planned.job)
    run(planned.job)
    result = jobs.written(planned.job.key)
    batch = planned.batch.model_copy(update={"writes": result.writes, "counts": result.counts})
    return Handover(batch=batch, job_key=planned.job.key, properties=planned.properties)


def audit(contract: AnyContract, handover: Handover, attempt: Attempt, run: RunJob) -> None:
    """Check the written version, by its snapshot id, against the contract; `GateFailed` when it breaks it."""
    if handover.head.empty:
        return
    job = AuditJob(
        key=naming.job_key(contract.dataset, attempt.id, "audit"),
        session_id=attempt.session("audit"),
        stale_sessions=attempt.stale_sessions("audit"),
        batch_id=handover.batch.batch_id,
        interval_start=handover.batch.interval_start,
        interval_end=handover.batch.interval_end,
        contract=contract,
        head=handover.head,
        counts=handover.batch.counts,
    )
    jobs.hand_over(job)
    run(job)
    result = jobs.audited(job.key)
    gates.record(handover.batch.batch_id, attempt.id, result.gates)
    if result.failed:
        told = "; ".join(f"{g.gate}: {g.found}" for g in result.failed)
        raise GateFailed(f"{contract.dataset}: {told}; main is unchanged, look at branch {handover.head.branch}")


def make_public(
    contract: AnyContract, interval: Interval, handover: Handover, attempt: Attempt, run: RunJob
) -> Handover | None:
    """Publish the batch; where main has moved meanwhile, write and audit it again on the new base."""
    current: Handover | None = handover
    for _ in range(MOST_REWRITES):
        if current is None:
            return None
        try:
            _publish(interval, current)
        except MainMoved as moved:
            log.warning("%s; writing the batch again on the new main", moved)
            attempt = attempt.again()
            current = write(contract, interval, attempt, run)
            if current is not None:
                audit(contract, current, attempt, run)
        else:
            return current
    raise MainMoved(
        f"{contract.dataset}: main moved {MOST_REWRITES} times under this run; who writes without the lease?"
    )


def _publish(interval: Interval, handover: Handover) -> None:
    """Intent, companions, the table itself with its coverage, confirmation: in this order."""
    batches.intend(handover.batch, handover.files)
    for companion in handover.batch.writes:
        if companion.table != handover.batch.dataset and not companion.empty:
            publish(companion)
    publish(handover.head, covers=interval, properties=handover.properties)
    batches.settle(handover.batch.batch_id, PUBLISHED)
