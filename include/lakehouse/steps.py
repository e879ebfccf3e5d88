"""The steps that every layer's run takes: write → audit → publish, under the dataset's lease."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from itertools import takewhile

from pydantic import BaseModel, ConfigDict

from lakehouse import jobs, naming
from lakehouse.batch import DISCARDED, PUBLISHED, STANDING, Batch, TableWrite, TakenFile
from lakehouse.catalog import history, ref_snapshot, table
from lakehouse.contracts.model import AnyContract
from lakehouse.errors import MAIN_UNCHANGED, LakehouseError
from lakehouse.gates.asked import checks
from lakehouse.gates.checks import Check, Found, known
from lakehouse.gates.metadata import answers
from lakehouse.identities import by_its_writer
from lakehouse.intervals import Interval
from lakehouse.jobs import AuditJob, BuildJob, CleanJob, IngestJob
from lakehouse.ledger import batches, gates, leases
from lakehouse.naming import quarantine_table, tombstone_table
from lakehouse.plan import Attempt, plan
from lakehouse.provenance import is_maintenance
from lakehouse.publish import MainMoved, check_publishable, drop_branches, publish
from lakehouse.roles import Role

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
    def own(self) -> TableWrite:
        """The write of the dataset's own table."""
        return next(w for w in self.batch.writes if w.table == self.batch.dataset)

    @property
    def files(self) -> tuple[TakenFile, ...]:
        """The landing files that the batch took: too many for Airflow's own database, so they are in the answer."""
        if self.job_key is None or naming.layer_of(self.batch.dataset) != "bronze":
            return ()
        return jobs.written(self.job_key).files

    @property
    def days(self) -> tuple[date, ...] | None:
        """Gold: the days that the batch built."""
        job = jobs.taken_over(self.job_key) if self.job_key and naming.layer_of(self.batch.dataset) == "gold" else None
        return job.days if isinstance(job, BuildJob) else None

    def summary(self) -> str:
        """One line for the task's log."""
        counts = " ".join(f"{name}={count}" for name, count in self.batch.counts.items() if count or name == "rows_in")
        return f"{self.batch.batch_id}: {counts} snapshot={self.own.head}"


def take_lease(dataset: str, attempt: Attempt, *, take_over: bool = True) -> None:
    """Take the dataset's lease, from another try of the same run too if it may be taken over, or say who holds it."""
    if not leases.acquire(dataset, attempt.run, attempt.id, take_over=take_over):
        held = leases.holder(dataset)
        raise LeaseHeld(f"{dataset} is being written by {held.owner if held else 'another run'}")


@contextmanager
def leased(dataset: str, attempt: Attempt, *, take_over: bool = True) -> Iterator[None]:
    """Hold the dataset's lease and give it back in the end; `LeaseHeld` where it is another's."""
    take_lease(dataset, attempt, take_over=take_over)
    try:
        with leases.kept(dataset, attempt.run, attempt.id):
            yield
    finally:
        leases.release(dataset, attempt.run, attempt.id)


@by_its_writer
def write(contract: AnyContract, interval: Interval, attempt: Attempt, run: RunJob) -> Handover | None:
    """Write the interval's batch to a branch of its own; None when main holds all of it already."""
    begun = time.monotonic()
    planned = plan(contract, interval, attempt)
    if planned is None:
        return None
    for name in contract.tables:
        drop_branches(name, naming.branches_of(contract.dataset, interval))
    if planned.job is None:
        base = ref_snapshot(table(contract.dataset))
        nothing = TableWrite(table=contract.dataset, branch="", base=base, head=base)
        batch = planned.batch.model_copy(update={"writes": (nothing,), "counts": {"rows_in": 0}})
        return Handover(batch=batch, job_key=None, properties=planned.properties)
    jobs.hand_over(planned.job)
    run(planned.job)
    result = jobs.written(planned.job.key)
    if result.refused:
        raise GateFailed(f"{contract.dataset}: {result.refused}; {MAIN_UNCHANGED}")
    batch = planned.batch.model_copy(update={"writes": result.writes, "counts": result.counts})
    batch = batch.measured(write_s=time.monotonic() - begun, bytes_in=sum(file.bytes for file in result.files))
    return Handover(batch=batch, job_key=planned.job.key, properties=planned.properties)


@by_its_writer
def audit(contract: AnyContract, handover: Handover, attempt: Attempt, run: RunJob) -> Handover:
    """Check the written version, by its snapshot id, against the contract; `GateFailed` when it breaks it."""
    begun = time.monotonic()
    asked = checks(contract, handover.batch, _held(handover.own), handover.files)
    if handover.own.empty:  # the table is as it was: only what it was made from can be wrong
        asked = [check for check in asked if known(check)]
    found = {one.gate: one for one in _measured(contract, handover, asked, attempt, run)}
    results = [check.judged(found[check.gate]) for check in asked]
    looked_at = None if handover.own.empty else handover.own.head
    gates.record(handover.batch.batch_id, attempt.id, looked_at, results)
    for result in results:
        if result.verdict == "warned":
            log.warning("%s: gate %s warns: %s", contract.dataset, result.gate, result.found)
    if told := "; ".join(f"{result.gate}: {result.found}" for result in results if result.verdict == "failed"):
        raise GateFailed(f"{contract.dataset}: {told}; {MAIN_UNCHANGED}" + _where_to_look(handover.own))
    return handover.model_copy(update={"batch": handover.batch.measured(audit_s=time.monotonic() - begun)})


def _measured(
    contract: AnyContract, handover: Handover, asked: Sequence[Check], attempt: Attempt, run: RunJob
) -> list[Found]:
    """What each check found: as much as possible without a look at the data, the rest by one job."""
    found = [one for one in map(known, asked) if one]
    own, head = table(contract.dataset), handover.own.head
    if own is not None and head is not None:
        found += answers(own, head, asked)
    answered = {one.gate for one in found}
    left = tuple(check for check in asked if check.gate not in answered)
    if not left or head is None:
        return found
    job = AuditJob(
        key=naming.job_key(contract.dataset, attempt.id, "audit"),
        session_id=attempt.session("audit"),
        stale_sessions=attempt.stale_sessions("audit"),
        batch_id=handover.batch.batch_id,
        interval_start=handover.batch.interval_start,
        interval_end=handover.batch.interval_end,
        contract=contract,
        snapshot=head,
        checks=left,
        inputs=handover.batch.inputs,
        days=handover.days,
    )
    jobs.hand_over(job)
    run(job)
    return [*found, *jobs.audited(job.key).found]


def _where_to_look(own: TableWrite) -> str:
    """How to see what was written; readers do not see bronze."""
    role = f"--as {Role.TRANSFORM} " if naming.layer_of(own.table) == "bronze" else ""
    command = f'lakehouse query {role}--at {own.branch} "FROM {own.table} LIMIT 20"'
    return f", look at it with `{command}`" if own.branch else ""


def _held(write: TableWrite) -> tuple[str, ...]:
    """The gates, by definition, that the version passed on which the batch was written, compacted or not."""
    found = table(write.table)
    versions = history(found, write.base) if found else []
    audited = next((one for one in versions if not is_maintenance(one)), None)
    return gates.passed(audited.snapshot_id) if audited else ()


@by_its_writer
def make_public(
    contract: AnyContract, interval: Interval, handover: Handover, attempt: Attempt, run: RunJob
) -> Handover | None:
    """Publish the batch; where main has moved meanwhile, write and audit it again on the new base."""
    current: Handover | None = handover
    for _ in range(MOST_REWRITES):
        if current is None:
            return None
        try:
            return _publish(interval, current)
        except MainMoved as moved:
            log.warning("%s; writing the batch again on the new main", moved)
            attempt = attempt.again()
            current = write(contract, interval, attempt, run)
            if current is not None:
                current = audit(contract, current, attempt, run)
    raise MainMoved(
        f"{contract.dataset}: main moved {MOST_REWRITES} times under this run; who writes without the lease?"
    )


def make_replay_public(handover: Handover) -> None:
    """Publish replayed records: the table itself before the mark that they are resolved, lest one be lost between."""
    _intend(handover)
    own = handover.own
    mark = quarantine_table(handover.batch.dataset)
    for write in sorted(handover.batch.writes, key=lambda w: (w.table == mark, w.table == own.table)):
        if not write.empty:
            publish(write)
    batches.settle(handover.batch.batch_id, PUBLISHED)


def _publish(interval: Interval, handover: Handover) -> Handover:
    """Intent, companions, the table itself with its coverage, tombstones, confirmation: in this order."""
    begun = time.monotonic()
    if known := _confirmed(handover):
        return handover.model_copy(update={"batch": known})
    for write in handover.batch.writes:
        check_publishable(write)
    _intend(handover)
    before, after = _around(handover)
    for companion in before:
        publish(companion)
    publish(handover.own, covers=interval, properties=handover.properties)
    for companion in after:
        publish(companion)
    known = handover.batch.measured(publish_s=time.monotonic() - begun, **_left(handover))
    batches.settle(handover.batch.batch_id, PUBLISHED, known.measures)
    return handover.model_copy(update={"batch": known})


def _confirmed(handover: Handover) -> Batch | None:
    """The batch as the ledger has it, if this very try of it was published; `MainMoved` where it cannot be any more."""
    (known,) = batches.by_id([handover.batch.batch_id]) or (None,)
    if known is None:
        return None
    if known.writes != handover.batch.writes:
        if known.state in STANDING:
            raise MainMoved(f"{known.batch_id} is published by another try of it")
        return None
    if known.state == DISCARDED:
        raise MainMoved(f"{known.batch_id} was given up, and others may have cleared away what it left")
    return known if known.state == PUBLISHED else None


def _intend(handover: Handover) -> None:
    if not batches.intend(handover.batch, handover.files):
        raise MainMoved(f"{handover.batch.batch_id} is published by another try of it")


def _around(handover: Handover) -> tuple[list[TableWrite], list[TableWrite]]:
    """The companions that are published before the dataset's own table, and those after it.

    A delete that is forgotten cannot be worked out again when the batch comes to nothing: so tombstones wait until the
    own table has decided, and whoever settles the batch brings them after it.
    """
    own = handover.own
    late = "" if own.empty else tombstone_table(own.table)
    companions = [write for write in handover.batch.writes if write.table != own.table and not write.empty]
    return [one for one in companions if one.table != late], [one for one in companions if one.table == late]


def _left(handover: Handover) -> dict[str, float]:
    """By the summaries of snapshots: the size of the files that the batch added, and how many the table has now."""
    found, own = table(handover.batch.dataset), handover.own
    newest = found.snapshot_by_id(own.head) if found and own.head is not None else None
    if found is None or newest is None or own.empty:
        return {"bytes_out": 0}
    added = takewhile(lambda snapshot: snapshot.snapshot_id != own.base, history(found, own.head))
    totals = newest.summary.additional_properties if newest.summary else {}
    return {
        "bytes_out": sum(int(s.summary.get("added-files-size") or 0) for s in added if s.summary),
        "table_files": int(totals.get("total-data-files", 0)) + int(totals.get("total-delete-files", 0)),
    }
