"""What is known of a table's health, as a document that the ledger and other programs can keep."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field


class Facts(BaseModel):
    """A document that refuses what it does not know and never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PartitionHealth(Facts):
    """One partition: a group of files that is read, and rewritten, together."""

    name: str = Field(description="As in ordered_at_day=2026-01-01; empty for a table without partitions.")
    where: str | None = Field(description="The SQL condition that picks it; None where its transform cannot be undone.")
    ends: datetime | None = Field(description="End of its time, where it is one of time.")
    files: int
    bytes: int
    rows: int = Field(description="In data files; deleted ones are still among them.")
    median_bytes: int
    p95_bytes: int = 0
    small_files: int = Field(description="Below half the target; the one that every partition may have, left out.")
    small_bytes: int = Field(description="In all files below half the target.")
    large_files: int = Field(0, description="Above 180 % of the target: a rewrite takes them, to cut them up.")
    large_bytes: int = Field(0, description="In these files.")
    delete_files: int
    delete_bytes: int
    deleted_rows: int
    deletes_of_one_file: int = Field(0, description="Of the delete files, those that belong to one data file each.")
    manifests: int = Field(description="Lists of files that name some of it.")
    needed_files: int = Field(description="As many as it would have, were all of the target's size.")
    dropped_files: int = Field(0, description="That still hold columns which the table has no more.")
    dropped_bytes: int = Field(0, description="In these files, all columns counted.")

    @property
    def deleted_share(self) -> float:
        return self.deleted_rows / self.rows if self.rows else 0.0

    @property
    def amplification(self) -> float:
        """How many files a query of this partition opens for each one that it would need."""
        return (self.files + self.delete_files) / self.needed_files if self.files else 1.0


class TableHealth(Facts):
    """What main's newest snapshot, and the table's metadata, say of the table."""

    files: int
    bytes: int
    rows: int = Field(description="As a reader counts them: without those that are deleted.")
    median_bytes: int = 0
    p95_bytes: int = 0
    small_files: int = 0
    delete_files: int
    delete_bytes: int = 0
    deleted_rows: int = 0
    files_to_open: float = Field(0, description="By a query of one partition, data and deletes; the mean of all.")
    amplification: float = Field(1, description="The same, for each file that would be needed at the target's size.")
    manifests: int = 0
    manifest_bytes: int = 0
    snapshots: int = Field(description="Without those that a tag keeps.")
    oldest_snapshot_ms: int | None
    branches: int = 0
    tags: int = 0
    metadata_bytes: int = Field(0, description="Of metadata.json, which every reader loads first.")
    written_at: datetime | None = Field(None, description="Of the newest change of rows; maintenance is none.")
    last_with_dropped: datetime | None = Field(
        None, description="When the newest version was written that had a column which the table has no more."
    )
    format_version: int = 2
    target_bytes: int = Field(128 << 20, description="The file size that small files were measured by.")
    snapshot_id: int | None = None
    partitions: tuple[PartitionHealth, ...] = ()

    @property
    def small_share(self) -> float:
        return self.small_files / self.files if self.files else 0.0

    @property
    def deleted_share(self) -> float:
        return self.deleted_rows / (self.rows + self.deleted_rows) if self.deleted_rows else 0.0

    def without_partitions(self) -> TableHealth:
        """The same in a size that does not grow with the table."""
        return self.model_copy(update={"partitions": ()})
