"""The contract of a dataset, one class a layer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, Literal, Self
from zoneinfo import ZoneInfo

from croniter import croniter
from pydantic import Field, model_validator

from lakehouse.contracts import faults
from lakehouse.contracts.faults import Fault, Faults
from lakehouse.contracts.fields import (
    Column,
    Cron,
    DatasetName,
    DatasetNames,
    Duration,
    Name,
    Source,
    Strict,
    TimeZone,
    partition_column,
)
from lakehouse.contracts.gates import Gate
from lakehouse.contracts.keeping import Maintenance, Retention
from lakehouse.contracts.places import landing_prefix
from lakehouse.contracts.shares import Share
from lakehouse.contracts.sla import Sla
from lakehouse.intervals import Interval
from lakehouse.naming import digest, feed_table, layer_of, quarantine_table, tombstone_table

BRONZE_COLUMNS = {
    "_raw_payload": "string",
    "_ingested_at": "timestamp",
    "_ingestion_date": "date",
    "_source": "string",
    "_source_file": "string",
    "_source_offset": "bigint",
    "_batch_id": "string",
    "_malformed": "string",
}
# What every silver row remembers of the record it came from.
LINEAGE_COLUMNS = ("_source_file", "_source_offset", "_batch_id")


class Contract(Strict):
    """What all layers have in common."""

    dataset: DatasetName = Field(description="<layer>.<name>.")
    description: str = Field(description="One sentence; becomes the table's comment and the DAG's description.")
    owner: Name = Field(description="Team that is told when something is wrong.")
    schedule: Cron = Field("@daily", validate_default=True, description="When an interval ends: @daily or cron.")
    start: date = Field(description="First interval.")
    end: date | None = Field(None, description="No interval begins on or after this day.")
    timezone: TimeZone = Field("UTC", description="Zone of the schedule and of start.")
    partition_by: tuple[str, ...] = Field((), description="column, day(column), bucket(16, column), …")
    gates: tuple[Gate, ...] = Field((), description="Checks of a batch before it is published.")
    sla: Sla = Field(description="When an interval must be there.")
    retention: Retention = Field(description="How long history is kept.")
    maintenance: Maintenance = Field(description="How the table is kept healthy.")

    # What layers.yaml gives to a contract that does not say it.
    LAYERED: ClassVar[tuple[str, ...]] = ("sla", "retention", "maintenance")

    # What changes no row: a different value gives no new batch.
    _COSMETIC: ClassVar[tuple[str, ...]] = (
        *("description", "owner", "schedule", "start", "end"),
        *("gates", "sla", "retention", "maintenance", "update_mode"),
        *("most_rejected", "most_deleted", "change_feed", "unknown_history"),
    )
    # The same of fields that are sections.
    _COSMETIC_PARTS: ClassVar[dict[str, Any]] = {
        "columns": {"__all__": {"description"}},
        "source": {"archive_after", "delete_after"},
    }

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if found := list(self._faults()):
            raise Faults(found)
        return self

    def _faults(self) -> Iterator[Fault]:
        """Everything that is wrong across fields."""
        return faults.of_contract(self)

    @property
    def layer(self) -> str:
        return layer_of(self.dataset)

    @property
    def tables(self) -> tuple[str, ...]:
        """The dataset's table and its companions, all written under the dataset's one lease."""
        return (self.dataset,)

    @property
    def column_types(self) -> dict[str, str]:
        """The columns that the contract's other fields may name, with their types."""
        return {}

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(self.column_types)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The datasets that this one is made from."""
        return ()

    @property
    def version(self) -> str:
        """A hash of all that decides which rows come out."""
        cosmetic: dict[str, Any] = dict.fromkeys(self._COSMETIC, True) | self._COSMETIC_PARTS
        return digest(self.model_dump(mode="json", by_alias=True, exclude=cosmetic))

    def interval_ending_by(self, moment: datetime) -> Interval:
        """The newest interval that has ended at the given moment."""
        zone = ZoneInfo(self.timezone)
        end = croniter(self.schedule, (moment + timedelta(microseconds=1)).astimezone(zone)).get_prev(datetime)
        return Interval(croniter(self.schedule, end).get_prev(datetime), end)

    def interval_around(self, moment: datetime) -> Interval:
        """The interval that the given moment is in."""
        found = self.interval_after(moment)
        return found if found.start == moment else self.interval_before(found)

    def interval_before(self, interval: Interval) -> Interval:
        return self.interval_ending_by(interval.start)

    def interval_after(self, moment: datetime) -> Interval:
        """The first interval that begins at the given moment or later."""
        zone = ZoneInfo(self.timezone)
        start = croniter(self.schedule, (moment - timedelta(microseconds=1)).astimezone(zone)).get_next(datetime)
        return Interval(start, croniter(self.schedule, start).get_next(datetime))

    def due(self, interval: Interval) -> datetime | None:
        """When the interval must be published; None where the contract promises nothing."""
        return self.sla.due(interval.end, self.timezone)


class Bronze(Contract):
    """Records as they came."""

    source: Source = Field(description="Where the records come from.")
    partition_by: tuple[str, ...] = Field(("_ingestion_date",), description="Kept as it is.")

    @property
    def column_types(self) -> dict[str, str]:
        return BRONZE_COLUMNS

    def landing_prefix(self, start: datetime) -> str:
        """Where the files of the interval that starts then are expected; a time without a zone is the contract's."""
        return landing_prefix(self.source.path, self.timezone, start)

    def _faults(self) -> Iterator[Fault]:
        yield from super()._faults()
        yield from faults.of_bronze(self)


class Shaped(Contract):
    """A dataset with columns of its own."""

    columns: dict[Name, Column] = Field(min_length=1, description="The columns, in order.")

    def _faults(self) -> Iterator[Fault]:
        yield from super()._faults()
        yield from faults.of_columns(self.columns)

    @property
    def column_types(self) -> dict[str, str]:
        return {name: column.type for name, column in self.columns.items()}


class Silver(Shaped):
    """Typed rows: the newest version of each key, or events as they happened."""

    reads: DatasetName = Field(description="The bronze dataset that it is made from.")
    delivers: Literal["changes", "snapshot", "events"] = Field(
        "changes",
        description="What an interval brings: changes of keyed rows, the whole table (a key that is gone is deleted, "
        "unless some record's cannot be read), or events without a key, which replace what their interval brought "
        "before.",
    )
    key: tuple[str, ...] = Field((), description="Columns that identify a row; events have none.")
    newest_by: tuple[str, ...] = Field((), description="Order of a key's versions; first, the change's time.")
    duplicate_by: tuple[str, ...] = Field(
        (), description="Events: required columns by which one is known that came twice in its interval."
    )
    rules: dict[Name, str] = Field(
        {}, description="Rules across columns: name, and SQL condition that must not be false."
    )
    most_rejected: Share = Field(
        "20%", validate_default=True, description="A batch of which more is rejected fails; main stays as it was."
    )
    most_deleted: Share = Field(
        "50%", validate_default=True, description="A snapshot that lacks more of the table's rows fails."
    )
    change_feed: bool = Field(
        False, description="Keep every change, before and after, in silver.<name>_changes for incremental readers."
    )
    unknown_history: Literal["refuse", "delete"] = Field(
        "refuse",
        description="A corrected file lacks a key that it brought, and earlier records of the key may have gone with "
        "old rows of bronze: refuse the batch, or delete the key.",
    )
    delete_when: str = Field("", description="SQL condition on the record's top-level fields that makes it a delete.")
    late_data: Duration | None = Field(None, description="Changes older than this at the interval's end are rejected.")
    update_mode: Literal["merge_on_read", "copy_on_write"] = Field(
        "merge_on_read", description="merge_on_read where updates are sparse, copy_on_write where dense."
    )

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.reads,)

    @property
    def tables(self) -> tuple[str, ...]:
        gone = (tombstone_table(self.dataset),) if self.delivers == "changes" else ()
        feed = (feed_table(self.dataset),) if self.change_feed else ()
        return self.dataset, quarantine_table(self.dataset), *gone, *feed

    @property
    def time_partition(self) -> str | None:
        """The first column of a date or time that the table is partitioned by."""
        columns = [partition_column(field) or "" for field in self.partition_by]
        return next((name for name in columns if self.columns[name].type in ("date", "timestamp")), None)

    def _faults(self) -> Iterator[Fault]:
        yield from super()._faults()
        yield from faults.of_silver(self)


class Gold(Shaped):
    """What people read: the result of the SQL file beside the contract."""

    reads: DatasetNames = Field(min_length=1, description="Datasets that the SQL reads, as views named <layer>_<name>.")
    rebuild: dict[str, str] = Field(
        {}, description="Own date column: <input>.<timestamp>. Only days whose input changed are built again."
    )
    sql: str = Field(description="The query; taken from <name>.sql.")

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.reads

    def _faults(self) -> Iterator[Fault]:
        yield from super()._faults()
        yield from faults.of_gold(self)


AnyContract = Bronze | Silver | Gold
MODELS: dict[str, type[Bronze | Silver | Gold]] = {"bronze": Bronze, "silver": Silver, "gold": Gold}
