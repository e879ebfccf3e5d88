"""A batch: what one run writes, from what, to where."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from lakehouse.intervals import Interval

# Where the range begins that a replay names instead of an interval.
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
INTENT, PUBLISHED, DISCARDED, UNDONE = "intent", "published", "discarded", "undone"
STANDING = (INTENT, PUBLISHED)  # main holds it, or may at any moment


class InputFile(BaseModel):
    """A landing file, by name and by content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str
    etag: str
    bytes: int
    replaces: str = Field("", description="The batch that took an earlier version of this file: this one corrects it.")


class TakenFile(InputFile):
    """A landing file as a batch found it."""

    sha256: str
    rows: int
    same_as: str = Field("", description="The file that brought the same bytes before; this one was left out.")
    malformed: int | None = Field(
        None, description="Records that are not in bronze as they came: cut off, damaged. None: they were not counted."
    )


class Corrections(BaseModel):
    """Versions of files, as (batch, uri), that were replaced by a later one, and those that replaced an earlier one.

    `inherited` are replaced ones whose bytes another file has still: (batch, uri, that file). Their rows are its rows.
    The other ones are `dropped`: their rows are nobody's. `replaced` has every name that rows of theirs may have had.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    replaced: tuple[tuple[str, str], ...] = ()
    replacing: tuple[tuple[str, str], ...] = ()
    inherited: tuple[tuple[str, str, str], ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()

    def of(self, batch_ids: Collection[str]) -> Corrections:
        """Those that these batches brought."""
        return Corrections(
            replaced=tuple(pair for pair in self.replaced if pair[0] in batch_ids),
            replacing=tuple(pair for pair in self.replacing if pair[0] in batch_ids),
            inherited=tuple(heir for heir in self.inherited if heir[0] in batch_ids),
            dropped=tuple(pair for pair in self.dropped if pair[0] in batch_ids),
        )


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
    measures: dict[str, float] = Field(
        {}, description="Seconds of each step, bytes read from landing, bytes written, files of the table after it."
    )
    published_at: datetime | None = None

    @property
    def interval(self) -> Interval:
        return Interval(self.interval_start, self.interval_end)

    @property
    def of_interval(self) -> bool:
        """Whether it is an interval's own; replayed records are of no interval."""
        return self.interval_start > BEGINNING

    def measured(self, **more: float) -> Batch:
        """The same batch with more known of it; seconds add up where a step was taken twice."""
        sums = {name: round(self.measures.get(name, 0.0) + value, 2) for name, value in more.items()}
        return self.model_copy(update={"measures": {**self.measures, **sums}})
