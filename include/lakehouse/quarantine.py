"""Rejected records: how many there are and why, and what people decide about them."""

from __future__ import annotations

from datetime import datetime

from lakehouse import jobs, naming
from lakehouse.advice import run_again
from lakehouse.batch import BEGINNING, Batch
from lakehouse.catalog import ref_snapshot, table
from lakehouse.contracts.model import AnyContract, Silver
from lakehouse.errors import LakehouseError
from lakehouse.identities import by_its_writer
from lakehouse.jobs import Chosen, ReplayJob
from lakehouse.ledger.database import now
from lakehouse.plan import Attempt, feed_state
from lakehouse.provenance import origin, provenance
from lakehouse.query import Rows, run_sql
from lakehouse.settling import settle
from lakehouse.steps import Handover, RunJob, audit, make_replay_public
from lakehouse.versions import existing


def summary(dataset: str) -> Rows:
    """How many records wait in quarantine, by interval and reason; one that broke two rules counts for both."""
    table_name = naming.quarantine_table(dataset)
    reasons = f"SELECT _interval_start, unnest(_reasons) AS reason FROM {table_name} WHERE _resolution IS NULL"  # noqa: S608
    return run_sql(f"SELECT *, count(*) AS records FROM ({reasons}) GROUP BY ALL ORDER BY 1, 3 DESC, 2")  # noqa: S608


def records(dataset: str, reason: str | None, interval_start: datetime | None, limit: int) -> Rows:
    """Rejected records as they came, those not resolved first."""
    where = " AND ".join(["true", *_conditions(reason, interval_start)])
    columns = "_interval_start, _reasons, _raw_payload, _source_file, _source_offset, _resolution, _resolved_by"
    order = "_resolution IS NOT NULL, _interval_start, _source_file, _source_offset"
    rejected = f"{naming.quarantine_table(dataset)} WHERE {where}"
    return run_sql(f"SELECT {columns} FROM {rejected} ORDER BY {order} LIMIT {int(limit)}")  # noqa: S608


def _conditions(reason: str | None, interval_start: datetime | None) -> list[str]:
    text = (reason or "").replace("'", "''")
    found = [f"list_contains(_reasons, '{text}')"] if reason else []
    return [*found, f"_interval_start = TIMESTAMPTZ '{interval_start.isoformat()}'"] if interval_start else found


@by_its_writer
def resolve(contract: AnyContract, chosen: Chosen, attempt: Attempt, run: RunJob) -> dict[str, int]:
    """Replay or discard rejected records. Call it under the lease; returns what became of them."""
    if not isinstance(contract, Silver):
        raise LakehouseError(f"{contract.dataset} has no quarantine; only silver datasets have one")
    if contract.delivers == "snapshot" and chosen.resolution == "replayed":
        raise LakehouseError(
            f"{contract.dataset} is delivered as whole snapshots: run the interval again instead, "
            + _instead_of_replay(contract, chosen.interval_start)
        )
    settle(contract.dataset)
    job, batch = _planned(contract, chosen, attempt)
    jobs.hand_over(job)
    run(job)
    result = jobs.written(job.key)
    if not result.counts["rows_in"]:
        return result.counts
    written = batch.model_copy(update={"writes": result.writes, "counts": result.counts})
    handover = Handover(batch=written, job_key=None, properties={})
    make_replay_public(audit(contract, handover, attempt, run))
    return result.counts


def _instead_of_replay(contract: Silver, interval_start: datetime | None) -> str:
    if interval_start is None:
        return f"`lakehouse quarantine list {contract.dataset}` says which"
    return run_again(contract, [contract.interval_around(interval_start)])


def outcome(chosen: Chosen, counts: dict[str, int]) -> str:
    """What became of the records, in a line."""
    rows = counts["rows_in"]
    if not rows:
        return "no record is waiting that fits"
    if chosen.resolution == "discarded":
        return f"{rows} records discarded"
    return f"{rows - counts['quarantined']} of {rows} records replayed, {counts['quarantined']} rejected again"


def _planned(contract: Silver, chosen: Chosen, attempt: Attempt) -> tuple[ReplayJob, Batch]:
    dataset, at = contract.dataset, now()
    if table(naming.quarantine_table(dataset)) is None:
        raise LakehouseError(f"{dataset} has rejected nothing yet")
    bases = {name: ref_snapshot(table(name)) for name in contract.tables}
    source = origin(existing(dataset), bases[dataset])
    mark = naming.digest([contract.version, chosen.model_dump(mode="json"), bases])
    # Of no interval's own: a run of one must not take it for its own batch.
    batch = Batch(
        batch_id=f"{naming.dag_id(dataset)}-{chosen.resolution}-{mark}",
        dataset=dataset,
        interval_start=BEGINNING,
        interval_end=at,
        fingerprint=mark,
        contract_version=contract.version,
        run=attempt.run,
        attempt=attempt.id,
        inputs=source.inputs if source else {},
    )
    job = ReplayJob(
        key=naming.job_key(dataset, attempt.id, "replay"),
        session_id=attempt.session("replay"),
        stale_sessions=attempt.stale_sessions("replay"),
        batch_id=batch.batch_id,
        interval_start=batch.interval_start,
        interval_end=batch.interval_end,
        branch=naming.branch(dataset, batch.interval, batch.batch_id, attempt.id),
        bases=bases,
        provenance=provenance(batch),
        contract=contract,
        input_snapshot=None,
        input_batches=(),
        planned_at=at,
        **feed_state(contract),
        chosen=chosen,
    )
    return job, batch
