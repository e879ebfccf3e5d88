"""Rebuild: a published batch once more, from the versions it named, beside the table; the rows must be the same.

Its job document tells all that it was told the first time. What it writes goes to a branch that nobody publishes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pyiceberg.table import Table

from lakehouse import jobs, naming
from lakehouse.batch import Batch
from lakehouse.catalog import history, table
from lakehouse.contracts.model import AnyContract
from lakehouse.errors import LakehouseError
from lakehouse.identities import by_its_writer
from lakehouse.intervals import Interval
from lakehouse.jobs import BuildJob, CleanJob, IngestJob
from lakehouse.landing import not_there
from lakehouse.ledger import batches, landing_gone
from lakehouse.plan import Attempt
from lakehouse.provenance import batch_of, code_version, origin
from lakehouse.publish import drop_branches
from lakehouse.query import Version, identifier, run_on
from lakehouse.store import NoDocument
from lakehouse.versions import existing, version

_VERBS = {"bronze": "ingest", "silver": "clean", "gold": "build"}
ROWS = "one_version.rows"


class CannotRebuild(LakehouseError):
    """What the batch was made from is not there any more; the message says which."""


@dataclass(frozen=True)
class Rebuilt:
    """The batch, the version it made, and the hash of all rows then and now."""

    batch: Batch
    snapshot: int
    then: str
    now: str
    rows: int
    same_code: bool

    @property
    def equal(self) -> bool:
        return self.then == self.now


@by_its_writer
def rebuild(
    contract: AnyContract, interval: Interval, as_of: str | None, attempt: Attempt, run: Callable[[Any], None]
) -> Rebuilt:
    """Write the interval's batch, as it is in that version, once more, and compare. Call it under the lease."""
    own = existing(contract.dataset)
    batch, snapshot = _batch(contract, own, interval, version(contract.dataset, own, as_of))
    job = _job(contract, batch, attempt)
    _demand(job)
    jobs.hand_over(job)
    try:
        run(job)
        write = next(w for w in jobs.written(job.key).writes if w.table == contract.dataset)
        own = existing(contract.dataset)
        (rows, then), (_, now) = (row_hash(contract, own, one) for one in (snapshot, write.head))
    finally:
        for name in contract.tables:
            drop_branches(name, job.branch)
    source = origin(own, snapshot)
    return Rebuilt(batch, snapshot, then, now, rows, same_code=source is not None and source.code == code_version())


def row_hash(contract: AnyContract, found: Table, snapshot_id: int | None) -> tuple[int, str]:
    """How many rows a version holds, and a hash of all of them in the order of their values."""
    versions = [Version(ROWS, found, snapshot_id)]
    known = {row[0] for row in run_on(versions, f"DESCRIBE {ROWS}")[1]}
    columns = ", ".join(identifier(name) for name in contract.column_names if name in known)
    texts = f"SELECT row({columns})::VARCHAR AS one FROM {ROWS}"  # noqa: S608
    # Each row's hash, sorted and hashed again: the order of rows in files means nothing, a repeated row does.
    each = f"SELECT md5(one) AS h FROM ({texts})"  # noqa: S608
    hashed = f"SELECT count(*), md5(coalesce(string_agg(h, '' ORDER BY h), '')) FROM ({each})"  # noqa: S608
    ((rows, digest),) = run_on(versions, hashed)[1]
    return rows, digest


def _batch(contract: AnyContract, own: Table, interval: Interval, until: int) -> tuple[Batch, int]:
    """The newest batch of the interval in that version, and the snapshot with which it was complete."""
    mine = {batch.batch_id: batch for batch in batches.published_in(contract.dataset, interval)}
    for snapshot in history(own, until):
        batch = mine.get(batch_of(snapshot) or "")
        if batch is not None:
            return batch, snapshot.snapshot_id
    raise CannotRebuild(f"{contract.dataset}: version {until} holds no batch of {interval} that is still known")


def _job(contract: AnyContract, batch: Batch, attempt: Attempt) -> IngestJob | CleanJob | BuildJob:
    """The job as it was, for a branch and a session of this try's own."""
    verb = _VERBS[contract.layer]
    key = naming.job_key(batch.dataset, batch.attempt, verb)
    if batch.contract_version != contract.version:
        raise CannotRebuild(f"{contract.dataset}: its contract has changed since batch {batch.batch_id} was made")
    try:
        job = jobs.taken_over(key)
    except (NoDocument, ValidationError):
        raise CannotRebuild(f"{contract.dataset}: the job document of batch {batch.batch_id} is gone") from None
    if not isinstance(job, IngestJob | CleanJob | BuildJob) or job.batch_id != batch.batch_id:
        raise CannotRebuild(f"{contract.dataset}: the job document of batch {batch.batch_id} is another's by now")
    return job.model_copy(
        update={
            "contract": contract,  # the same rows, and today's descriptions
            "key": naming.job_key(batch.dataset, attempt.id, verb),
            "session_id": attempt.session(verb),
            "stale_sessions": (),
            "branch": naming.branch(batch.dataset, batch.interval, f"rebuild-{batch.batch_id}", attempt.id),
        }
    )


def _demand(job: IngestJob | CleanJob | BuildJob) -> None:
    """Every version and every landing file that the job reads must still be there."""
    gone = not_there(landing_gone.taken_by([job.batch_id])) if isinstance(job, IngestJob) else iter(())
    if (file := next(gone, None)) is not None:
        where = f"is in {file.archived_to}; copy it back" if file.archived_to else "is gone"
        raise CannotRebuild(f"batch {job.batch_id} needs {file.uri}, which {where}")
    needed: dict[str, int | None] = dict(job.bases)
    if isinstance(job, BuildJob):
        needed |= job.input_snapshots
    if isinstance(job, CleanJob):
        needed[job.contract.reads] = job.input_snapshot
    for name, snapshot in needed.items():
        found = table(name)
        if snapshot is not None and (found is None or found.snapshot_by_id(snapshot) is None):
            raise CannotRebuild(f"batch {job.batch_id} needs version {snapshot} of {name}, which has expired")
