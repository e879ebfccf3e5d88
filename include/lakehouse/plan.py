"""What a run of one interval has to write, and whether it has to write at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from lakehouse import naming
from lakehouse.batch import DISCARDED, PUBLISHED, Batch, Corrections, InputFile
from lakehouse.catalog import absorbed, coverage, ref_snapshot, rows_from, table
from lakehouse.changes import changed_days
from lakehouse.cleaned import cleans, is_cleaned, taken
from lakehouse.contracts.model import AnyContract, Bronze, Contract, Gold, Silver
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Interval, is_gone, shown
from lakehouse.jobs import BuildJob, CleanJob, IngestJob, InputBatch
from lakehouse.landing import data_files
from lakehouse.landing_cleared import check_known_if_cleared
from lakehouse.ledger import batches, rollbacks, taken_files
from lakehouse.ledger.database import now
from lakehouse.provenance import provenance
from lakehouse.settling import in_main, settle
from lakehouse.whole_intervals import check_whole

_LOOKS = 5  # at an input that changes while it is read


class NotReady(LakehouseError):
    """An input does not cover the interval yet."""


@dataclass(frozen=True)
class Attempt:
    """One try of one run."""

    run: str
    number: int
    redone: int = 0

    @property
    def id(self) -> str:
        return naming.attempt_id(self.run, self.number, self.redone)

    def again(self) -> Attempt:
        """The same try, writing once more because main has moved."""
        return replace(self, redone=self.redone + 1)

    def session(self, verb: str) -> str:
        return naming.spark_session_id(self.id, verb)

    def stale_sessions(self, verb: str) -> tuple[str, ...]:
        """The Connect sessions that this run's earlier tries may have left behind."""
        earlier = range(max(1, self.number - 3), self.number)
        return tuple(naming.spark_session_id(naming.attempt_id(self.run, n), verb) for n in earlier)


@dataclass(frozen=True)
class Plan:
    """A batch to write: its ledger entry, its job (None where there is no row to write), what publish sets."""

    batch: Batch
    job: IngestJob | CleanJob | BuildJob | None
    properties: dict[str, str] = field(default_factory=dict)


def plan(contract: AnyContract, interval: Interval, attempt: Attempt) -> Plan | None:
    """The batch that is missing, or None when the table already holds all of it. Call it under the lease."""
    settle(contract.dataset)
    if isinstance(contract, Bronze):
        return _plan_ingest(contract, interval, attempt)
    if isinstance(contract, Silver):
        return _of_one_moment(contract, interval, attempt)
    return _plan_build(contract, interval, attempt)


def _of_one_moment(contract: Silver, interval: Interval, attempt: Attempt) -> Plan | None:
    """What is planned from one state of the input, though that may be written or rolled back meanwhile.

    Its batches, their corrections and its table are read one after the other: mixed, they would lose a file's rows.
    """
    for _ in range(_LOOKS):
        before = batches.mark(contract.reads)
        if rollbacks.unfinished(contract.reads):
            raise NotReady(f"{contract.reads} is being rolled back; when that has ended, run this again")
        planned = _plan_clean(contract, interval, attempt)
        if batches.mark(contract.reads) == before and not rollbacks.unfinished(contract.reads):
            return planned
    raise NotReady(f"{contract.reads} changed each of {_LOOKS} times that it was read; run this again")


def _covered(contract: Contract, interval: Interval) -> bool:
    return interval in coverage(table(contract.dataset))


def _batch(
    contract: Contract, interval: Interval, attempt: Attempt, fingerprint: object, inputs: dict[str, int | None]
) -> Batch:
    mark = naming.digest(fingerprint)
    return Batch(
        batch_id=naming.batch_id(contract.dataset, interval, mark),
        dataset=contract.dataset,
        interval_start=interval.start,
        interval_end=interval.end,
        fingerprint=mark,
        contract_version=contract.version,
        run=attempt.run,
        attempt=attempt.id,
        inputs=inputs,
    )


def _shared(contract: Contract, batch: Batch, attempt: Attempt, verb: str) -> dict[str, Any]:
    """The part of a write job that all layers share."""
    return {
        "key": naming.job_key(batch.dataset, attempt.id, verb),
        "session_id": attempt.session(verb),
        "stale_sessions": attempt.stale_sessions(verb),
        "batch_id": batch.batch_id,
        "interval_start": batch.interval_start,
        "interval_end": batch.interval_end,
        "branch": naming.branch(batch.dataset, batch.interval, batch.batch_id, attempt.id),
        "bases": {name: ref_snapshot(table(name)) for name in contract.tables},
        "provenance": provenance(batch),
    }


def _plan_ingest(contract: Bronze, interval: Interval, attempt: Attempt) -> Plan | None:
    files = tuple(taken_files.untaken(contract.dataset, data_files(contract, interval.start)))
    if not files and _covered(contract, interval):
        return None
    check_known_if_cleared(contract, interval.start)
    if kept_from := rows_from(table(contract.dataset)):
        _can_be_kept(contract, interval, files, kept_from)
    batch = _batch(contract, interval, attempt, [[f.uri, f.etag, f.replaces] for f in files], {})
    if not files and table(contract.dataset):
        return Plan(batch, None)
    within = interval if contract.source.recognise == "interval" else None
    job = IngestJob(
        contract=contract,
        files=files,
        ingested_at=datetime.now(UTC),
        known=taken_files.known_content(contract.dataset, files, within),
        **_shared(contract, batch, attempt, "ingest"),
    )
    return Plan(batch, job)


def _can_be_kept(contract: Bronze, interval: Interval, files: Sequence[InputFile], kept_from: date) -> None:
    """Raises where rows would come for a day that was let go, or would change what such a day brought."""
    if is_gone(interval, kept_from):
        what = f"{len(files)} files that were not taken" if files else "no files"
        corrections = any(file.replaces for file in files)
        fix = "remove those that correct others, and " if corrections else ""
        raise LakehouseError(
            f"{contract.dataset} let its rows from before {kept_from} go, and landing has {what} for {interval}; "
            f"{fix}deliver what was never taken for an interval that is kept"
        )
    if contract.source.recognise == "interval":
        return
    if repeats := taken_files.repeats_before(contract.dataset, files, kept_from):
        raise LakehouseError(
            f"{repeats[0]} corrects bytes that came before {kept_from}, and {contract.dataset} has let these rows go; "
            "bring back the bytes that it had, and deliver what is to change under another name"
        )


def _plan_clean(contract: Silver, interval: Interval, attempt: Attempt) -> Plan | None:
    _check_source(contract)
    _all_confirmed(contract.reads, interval)
    known = batches.published_in(contract.reads, interval)
    source = table(contract.reads)  # after what is known of it: it may hold more than that, and not less
    if interval not in coverage(source):
        raise NotReady(f"{contract.reads} does not hold {interval} yet")
    if not known:
        check_whole(contract, interval, known)
        raise LakehouseError(f"{contract.reads} holds {interval}, but the ledger knows no batch; restore the ledger")
    brought = taken(known)
    every = taken_files.corrections(contract.reads)
    mine = every.of({b.batch_id for b in known})
    snapshot = ref_snapshot(source)
    own = batches.published_in(contract.dataset, interval)
    done = [b.batch_id for b in own]
    kept_from = rows_from(source)
    if is_gone(interval, kept_from):
        _as_it_is(contract, interval, known, mine, own)
        return None
    if _covered(contract, interval) and is_cleaned(contract, interval, known, mine, own):
        return None
    check_whole(contract, interval, known)

    def batch_after(*before: str) -> Batch:
        content = cleans(contract.version, known, mine, *before)
        return _batch(contract, interval, attempt, content, {contract.reads: snapshot})

    batch = batch_after()
    if batch.batch_id in done:  # and something else was done on top of it: doing it once more is another batch
        batch = batch_after(done[0])
    was_empty = contract.delivers == "snapshot" or not any(b.counts.get("rows_in") for b in own)
    kept = {naming.SOURCE: _source(contract)}
    if not brought and not mine.replaced and was_empty and table(contract.dataset):
        return Plan(batch, None, properties=kept)
    outdated = contract.delivers == "snapshot" and coverage(table(contract.dataset)).reaches_beyond(interval)
    # Of a wider interval, each within it was read by a contract of its own.
    last = own[:1] if own and own[0].interval == interval else own
    otherwise = any(b.contract_version != contract.version for b in last)
    late_otherwise = bool(contract.late_data) and any(b.interval != interval for b in last)
    reread = contract.delivers == "changes" and (otherwise or late_otherwise)
    looks_back = bool(mine.replaced) or reread
    job = CleanJob(
        contract=contract,
        reread=reread,
        input_snapshot=snapshot,
        input_batches=tuple(brought),
        input_rows=sum(b.counts.get("rows_in", 0) for b in known),
        planned_at=now(),
        corrections=mine,
        history=_history(contract, known) if looks_back else (),
        all_corrections=every if looks_back else Corrections(),
        replaces=tuple(sorted({b.interval_start for b in own})),
        replays=batches.replayed(contract.dataset),
        outdated=outdated,
        gone_until=_gone_until(contract, kept_from) if kept_from and looks_back else None,
        **feed_state(contract),
        **_shared(contract, batch, attempt, "clean"),
    )
    return Plan(batch, job, properties=kept)


def _source(contract: Silver) -> str:
    return f"{contract.delivers} of {contract.reads}"


def _check_source(contract: Silver) -> None:
    """`LakehouseError` where the table holds rows that came otherwise: nobody could tell which of them still count."""
    found = table(contract.dataset)
    before = found.properties.get(naming.SOURCE) if found else None
    if before not in (None, _source(contract)):
        raise LakehouseError(
            f"{contract.dataset} is filled from {before}, and its contract now says {_source(contract)}; rows of both "
            "could not be told apart: give the new dataset another name"
        )


def _gone_until(contract: Silver, kept_from: date) -> datetime | None:
    """When the last of the records came that went, by the clock of the latest zone: changes may name local times.

    `LakehouseError` where changes name none. The check of contracts asks for one only while bronze lets rows go.
    """
    if contract.delivers == "changes" and contract.column_types.get(contract.newest_by[0]) != "timestamp":
        raise LakehouseError(
            f"{contract.dataset} cannot tell a record that is newer than all that {contract.reads} has let go; make a "
            "timestamp the first of its newest_by"
        )
    came = taken_files.published_until(contract.reads, kept_from)
    return came + timedelta(days=1) if came else None


def _as_it_is(
    contract: Silver, interval: Interval, known: Sequence[Batch], mine: Corrections, own: Sequence[Batch]
) -> None:
    """An interval whose records went stays as it was made, by whichever contract; `LakehouseError` where it was not.

    Where intervals were others once, some of its records may be there still, and news among them.
    """
    under, kept_from = own[0].contract_version if own else None, rows_from(table(contract.reads))
    in_part = any(not is_gone(batch.interval, kept_from) for batch in known)
    changed = in_part and not is_cleaned(contract, interval, known, mine, own, under)
    if not _covered(contract, interval) or changed:
        raise LakehouseError(
            f"{contract.reads} has let the records of {shown(interval, contract.timezone)} go: it cannot be built any "
            f"more; let {contract.dataset} start later"
        )


def _all_confirmed(dataset: str, interval: Interval) -> None:
    """`NotReady` where main holds a batch of the interval whose publish was cut off before the ledger heard of it."""
    for batch in batches.unsettled(dataset):
        if interval.start <= batch.interval_start and batch.interval_end <= interval.end and in_main(batch):
            raise NotReady(f"{batch.batch_id} is in {dataset}, but not confirmed; run {dataset} of {interval} again")


def feed_state(contract: Silver) -> dict[str, Any]:
    """What a job has to know of the change feed: the batches that came to nothing, and whether it missed some."""
    if not contract.change_feed:
        return {}
    own, feed = contract.dataset, naming.feed_table(contract.dataset)
    missed = batches.since_written(own, feed, PUBLISHED)
    return {
        "unpublished": tuple(b.batch_id for b in batches.since_written(own, feed, DISCARDED)),
        "feed_lags": any(w.table == own and not w.empty for b in missed for w in b.writes),
    }


def _history(contract: Silver, mine: list[Batch]) -> tuple[InputBatch, ...]:
    """Every batch of the input that the table has taken in, and those of this interval."""
    held = coverage(table(contract.dataset))
    found = [b for b in batches.published(contract.reads) if b.interval in held or b in mine]
    # Late is what is old when silver's interval ends, in which several of the input's may lie.
    return tuple(
        InputBatch(batch_id=b.batch_id, interval_end=contract.interval_around(b.interval_start).end) for b in found
    )


def _plan_build(contract: Gold, interval: Interval, attempt: Attempt) -> Plan | None:
    sources = {name: table(name) for name in contract.reads}
    for name, source in sources.items():
        if interval not in coverage(source):
            raise NotReady(f"{name} does not hold {interval} yet")
        if kept_from := rows_from(source):
            raise LakehouseError(f"{name} has let its rows from before {kept_from} go; read silver instead")
    snapshots = {name: ref_snapshot(source) for name, source in sources.items()}
    days = _days_to_build(contract, snapshots)
    if days == () and _covered(contract, interval):
        return None
    content = [contract.version, snapshots, days]
    batch = _batch(contract, interval, attempt, content, dict(snapshots))
    if batch.batch_id in [b.batch_id for b in batches.published_in(contract.dataset, interval)]:
        # The inputs are back where they were: the same work once more, on top of other work, is another batch.
        again = [*content, ref_snapshot(table(contract.dataset))]
        batch = _batch(contract, interval, attempt, again, dict(snapshots))
    kept = {naming.ABSORBED: json.dumps({"contract": contract.version, "inputs": snapshots})}
    if days == () and table(contract.dataset):
        return Plan(batch, None, properties=kept)
    shared = _shared(contract, batch, attempt, "build")
    return Plan(batch, BuildJob(contract=contract, input_snapshots=snapshots, days=days, **shared), properties=kept)


def _days_to_build(contract: Gold, snapshots: dict[str, int | None]) -> tuple[date, ...] | None:
    """The days whose input changed since the last build; None: all of them; (): none."""
    own = table(contract.dataset)
    last = absorbed(own)
    before = last.get("inputs", {})
    if last.get("contract") == contract.version and before == snapshots:
        return ()
    moved = [name for name, snapshot in snapshots.items() if before.get(name) != snapshot]
    path = next(iter(contract.rebuild.values()), "")
    dataset, _, column = path.rpartition(".")
    if last.get("contract") != contract.version or moved != [dataset]:
        return None
    source, snapshot = table(dataset), snapshots[dataset]
    days = changed_days(source, column, before.get(dataset), snapshot) if source and snapshot else None
    return tuple(sorted(days)) if days is not None else None
