"""A batch: what one run writes, from what, to where."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from lakehouse.intervals import Interval

INTENT, PUBLISHED, DISCARDED = "intent", "published", "discarded"


class InputFile(BaseModel):
    """A landing file, by name and by content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str
    etag: str
    bytes: int


class TableWrite(BaseModel):
    """What a write left on a branch of one table. `head` equals `base` where nothing had to be written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    branch: str
    base: int | None
    head: int | None

    @property
    def empty(self) -> bool:
        return self.head == self.base


class Batch(BaseModel):
    """What one run writes. The same work always has the same id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch_id: str
    dataset: str
    interval_start: datetime
    interval_end: datetime
    fingerprint: str
    contract_version: str
    run: str
    attempt: str
    state: str = INTENT
    writes: tuple[TableWrite, ...] = ()
    inputs: dict[str, int | None] = {}
    counts: dict[str, int] = {}
    published_at: datetime | None = None

    @property
    def interval(self) -> Interval:
        return Interval(self.interval_start, self.interval_end)
