"""Job documents: all that a Spark job is told, and all that it answers.

A job's command line names its document in the object store. The document holds the contract, the interval, the pinned
inputs and the branch to write, so that a job needs no ledger, no clock and no contracts folder, and can be run again.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from lakehouse.batch import InputFile, TableWrite
from lakehouse.contracts.model import Bronze, Gold, Silver
from lakehouse.intervals import Interval
from lakehouse.naming import result_key
from lakehouse.store import get_document, put_document


class Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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


class IngestJob(WriteJob):
    verb: Literal["ingest"] = "ingest"
    contract: Bronze
    files: tuple[InputFile, ...]
    ingested_at: datetime


class CleanJob(WriteJob):
    verb: Literal["clean"] = "clean"
    contract: Silver
    input_snapshot: int | None
    input_batches: tuple[str, ...]


class BuildJob(WriteJob):
    verb: Literal["build"] = "build"
    contract: Gold
    input_snapshots: dict[str, int | None]
    days: tuple[date, ...] | None = Field(description="Days to build again; None: all.")


class AuditJob(BatchJob):
    verb: Literal["audit"] = "audit"
    contract: Bronze | Silver | Gold
    head: TableWrite
    counts: dict[str, int]


class Call(Document):
    """One of Iceberg's maintenance procedures, its arguments, and why it is called."""

    procedure: Literal["rewrite_data_files", "expire_snapshots"]
    reason: str
    options: dict[str, str] = {}
    older_than: datetime | None = None
    retain_last: int | None = None
    sort_order: str | None = None


class MaintainJob(Job):
    verb: Literal["maintain"] = "maintain"
    table: str
    call: Call


AnyJob = Annotated[IngestJob | CleanJob | BuildJob | AuditJob | MaintainJob, Field(discriminator="verb")]


class Envelope(Document):
    job: AnyJob


class Written(Document):
    """What a write answers."""

    writes: tuple[TableWrite, ...]
    counts: dict[str, int]


class GateResult(Document):
    gate: str
    passed: bool
    found: str


class Audited(Document):
    """What an audit answers."""

    gates: tuple[GateResult, ...]

    @property
    def failed(self) -> list[GateResult]:
        return [g for g in self.gates if not g.passed]


class Maintained(Document):
    """What maintenance answers: the procedure's own counters."""

    counters: dict[str, int]


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
