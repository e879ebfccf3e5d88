"""How a table is kept: for how long, and in which shape."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator, model_validator

from lakehouse.contracts.fields import Duration, Strict
from lakehouse.contracts.shares import Share

# A writer that does not know of leases may be at work for long: its files are no orphans yet.
ORPHANS_FLOOR = timedelta(days=3)
REGULATED = timedelta(days=7 * 365)


class Retention(Strict):
    """How long rows stay, and how long a table can be read as it was."""

    rows: Duration | None = Field(
        None,
        description="Bronze: rows of intervals that ended longer ago are deleted by maintenance, once everybody who "
        "reads the dataset has taken them; left out: they stay. Their bytes go when no version names them any more.",
    )
    snapshots: Duration = Field(description="How long old snapshots can be read.")
    keep_last: int = Field(5, ge=1, description="Snapshots kept whatever their age.")
    branches: Duration = Field(
        "7d", validate_default=True, description="How long the branch of a batch that failed its audit is kept."
    )
    regulated: bool = Field(False, description="Snapshots are kept for seven years at least.")

    @field_validator("rows")
    @classmethod
    def _whole_days(cls, age: timedelta | None) -> timedelta | None:
        if age is not None and (age < timedelta(days=1) or age % timedelta(days=1)):
            raise ValueError("rows go by whole days; write 1d or more")
        return age

    @property
    def history(self) -> timedelta:
        """How long old snapshots are kept in the end."""
        return max(self.snapshots, REGULATED) if self.regulated else self.snapshots


class Maintenance(Strict):
    """How a table's files are kept healthy. Each number is a threshold of the plan, or of an alert."""

    tier: Literal["hot", "daily", "weekly"] = Field("daily", description="How often the table is looked at.")
    strategy: Literal["binpack", "sort", "zorder"] | None = Field(
        None, description="How files are rewritten; left out: sorted where sort_by is given, else packed."
    )
    sort_by: tuple[str, ...] = Field((), description="Columns to sort by when files are rewritten.")
    target_file_mb: int = Field(128, ge=1, description="Size that files aim at, when written and when rewritten.")
    min_input_files: int = Field(5, ge=2, description="Small files in a partition before they are rewritten.")
    deleted_share: Share = Field(
        "10%", validate_default=True, description="A partition of whose rows more are deleted is rewritten."
    )
    min_manifests: int = Field(20, ge=2, description="Small lists of files before they are merged.")
    orphans_after: Duration = Field(
        "3d", validate_default=True, description="Files that no version names are removed at this age; 3d at least."
    )
    orphans_every: Duration = Field("7d", validate_default=True, description="How often such files are looked for.")
    dropped_after: Duration = Field(
        "7d",
        validate_default=True,
        description="Files that still hold a dropped column are written again this long after it was last written; "
        "its bytes are gone when the versions before that have expired.",
    )
    critical_files: int = Field(
        1_000,
        ge=1,
        description="Files, of data and deletes, more than when the table was last looked at: from so many on the "
        "pipeline that wrote them has it maintained at once.",
    )
    budget_mb: int = Field(51_200, ge=1, description="Most that is rewritten of a table in one window.")
    slice_mb: int = Field(512, ge=1, description="Most that is rewritten at once: a writer waits for that long.")
    most_small: Share = Field("30%", validate_default=True, description="Share of small files that is too many.")
    most_amplification: float = Field(
        10.0, gt=1, description="Files that a query of one partition opens, for each it would need, that are too many."
    )
    most_delete_mb: int = Field(1_024, ge=1, description="Deletes that are too much to apply at every read.")
    least_median_mb: int = Field(64, ge=1, description="Median file size that is too small in a table that matters.")
    matters_mb: int = Field(10_240, ge=1, description="Size from which a table's median file size matters.")

    @field_validator("orphans_after")
    @classmethod
    def _old_enough(cls, age: timedelta) -> timedelta:
        if age < ORPHANS_FLOOR:
            raise ValueError("a file younger than 3d may belong to a write that is not done; write 3d or more")
        return age

    @model_validator(mode="after")
    def _parts_go_together(self) -> Maintenance:
        if self.strategy in ("sort", "zorder") and not self.sort_by:
            raise ValueError(f"strategy {self.strategy} needs columns; add sort_by")
        if self.strategy == "binpack" and self.sort_by:
            raise ValueError("binpack sorts nothing; remove sort_by, or write strategy: sort")
        return self

    @property
    def way(self) -> str:
        """How files are rewritten in the end."""
        return self.strategy or ("sort" if self.sort_by else "binpack")

    @property
    def target_bytes(self) -> int:
        return self.target_file_mb << 20
