"""Job documents: all that a Spark job is told, and all that it answers.

A job's command line names its document in the object store. The document holds the contract, the interval, the pinned
inputs and the branch to write, so that a job needs no ledger, no clock and no contracts folder, and can be run again.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import Field

from lakehouse.batch import Corrections, InputFile, TableWrite, TakenFile
from lakehouse.contracts.model import Bronze, Gold, Silver
from lakehouse.gates.checks import Check, Document, Found
from lakehouse.intervals import Interval
from lakehouse.naming import result_key
from lakehouse.store import get_document, put_document


class Job(Document):
    """What every job knows."""

    key: str
    session_id: str
    stale_sessions: tuple[str, ...] = ()


class BatchJob(Job):
    """A job on one batch of one dataset."""

    batch_id: str
    interval_start: datetime
    interval_end: datetime

    @property
    def interval(self) -> Interval:
        return Interval(self.interval_start, self.interval_end)


class WriteJob(BatchJob):
    branch: str
    bases: dict[str, int | None]
    provenance: dict[str, str] = Field(description="What each snapshot's summary says of where it comes from.")


class IngestJob(WriteJob):
    verb: Literal["ingest"] = "ingest"
    contract: Bronze
    files: tuple[InputFile, ...]
    ingested_at: datetime
    known: dict[str, str] = Field({}, description="By SHA-256, other files in force that are as long as one of these.")


class InputBatch(Document):
    """A batch of the input, and the end of the interval in which it arrived."""

    batch_id: str
    interval_end: datetime


class CleanJob(WriteJob):
    verb: Literal["clean"] = "clean"
    contract: Silver
    input_snapshot: int | None
    input_batches: tuple[str, ...]
    input_rows: int = Field(0, description="Records in these batches.")
    planned_at: datetime
    corrections: Corrections = Field(Corrections(), description="Of the input's files, those of this interval.")
    reread: bool = Field(False, description="Another contract read the interval before: its records may say otherwise.")
    history: tuple[InputBatch, ...] = Field(
        (),
        description="Where versions may hold no more: every batch that the table is made from, to look for others.",
    )
    all_corrections: Corrections = Field(Corrections(), description="Of the whole history.")
    gone_until: datetime | None = Field(
        None, description="When the last of the records came that the history may lack, for they were let go."
    )
    replaces: tuple[datetime, ...] = Field(
        (), description="The beginnings of the intervals whose rows this one takes the place of, besides its own."
    )
    replays: bool = Field(False, description="Rejected records were replayed once: what was late then is not any more.")
    outdated: bool = Field(False, description="A snapshot of a later interval is there already: nothing can change.")
    unpublished: tuple[str, ...] = Field(
        (), description="Batches that came to nothing, this one's earlier tries too: a change feed may hold their rows."
    )
    feed_lags: bool = Field(False, description="The table was changed while it had no change feed.")


class Chosen(Document):
    """Rejected records that somebody has decided about: which, what, who and why."""

    resolution: Literal["replayed", "discarded"]
    by: str
    why: str
    reason: str | None = Field(None, description="Only records that broke this rule.")
    interval_start: datetime | None = Field(None, description="Only records of the interval that begins then.")


class ReplayJob(CleanJob):
    verb: Literal["replay"] = "replay"  # type: ignore[assignment]
    chosen: Chosen


class BuildJob(WriteJob):
    verb: Literal["build"] = "build"
    contract: Gold
    input_snapshots: dict[str, int | None]
    days: tuple[date, ...] | None = Field(description="Days to build again; None: all.")


class AuditJob(BatchJob):
    verb: Literal["audit"] = "audit"
    contract: Bronze | Silver | Gold
    snapshot: int = Field(description="The version to look at.")
    checks: tuple[Check, ...]
    inputs: dict[str, int | None] = Field({}, description="The versions that the batch was made from.")
    days: tuple[date, ...] | None = Field(None, description="Gold: the days that the batch built; None: all.")


class Call(Document):
    """One of Iceberg's maintenance procedures and its arguments."""

    procedure: Literal["rewrite_data_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]
    options: dict[str, str] = Field({})
    where: str | None = Field(None, description="Only files that may hold such rows.")
    sort_order: str | None = None
    older_than: datetime | None = None
    retain_last: int | None = None
    dry_run: bool | None = None
    files: tuple[tuple[str, datetime], ...] = Field(
        (), description="Only these may be removed, each with when it was written; without them nothing is."
    )


class MaintainJob(Job):
    verb: Literal["maintain"] = "maintain"
    table: str
    call: Call


AnyJob = Annotated[IngestJob | CleanJob | ReplayJob | BuildJob | AuditJob | MaintainJob, Field(discriminator="verb")]


class Envelope(Document):
    job: AnyJob


class Written(Document):
    """What a write answers."""

    writes: tuple[TableWrite, ...]
    counts: dict[str, int]
    files: tuple[TakenFile, ...] = ()
    refused: str = Field("", description="Why the batch must not be published, in one sentence.")


class Audited(Document):
    """What an audit answers."""

    found: tuple[Found, ...]


class Maintained(Document):
    """What maintenance answers: the procedure's own counters, the files that it names, and why some failed."""

    counters: dict[str, int]
    files: tuple[str, ...] = ()
    failure: str = ""


def hand_over(job: IngestJob | CleanJob | BuildJob | AuditJob | MaintainJob) -> None:
    """Put the job's document where its command line points."""
    put_document(job.key, Envelope(job=job).model_dump_json(by_alias=True))


def taken_over(key: str) -> IngestJob | CleanJob | BuildJob | AuditJob | MaintainJob:
    """The job that a command line points to."""
    return Envelope.model_validate_json(get_document(key)).job


def answer(key: str, result: Written | Audited | Maintained) -> None:
    put_document(result_key(key), result.model_dump_json())


def written(key: str) -> Written:
    return Written.model_validate_json(get_document(result_key(key)))


def audited(key: str) -> Audited:
    return Audited.model_validate_json(get_document(result_key(key)))


def maintained(key: str) -> Maintained:
    return Maintained.model_validate_json(get_document(result_key(key)))
