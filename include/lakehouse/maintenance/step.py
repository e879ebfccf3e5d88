"""A step of maintenance: what is done to a table, and why."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lakehouse.jobs import Call

Operation = Literal[
    "set_properties",
    "delete_old_rows",
    "clear_landing",
    "rewrite_data_files",
    "rewrite_manifests",
    "expire_snapshots",
    "remove_orphan_files",
]


class Step(BaseModel):
    """One operation on one table, bounded so that a writer waits for seconds; it can be handed to a task as text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    operation: Operation
    reason: str = Field(description="What was found that makes it necessary, in a sentence without its full stop.")
    does: str = Field(description="What it does, in words.")
    bytes: int = Field(0, description="About as much is read and written again.")
    call: Call | None = None
    properties: dict[str, str] = {}
    rows_from: date | None = Field(None, description="Rows of earlier days go.")
    taken_before: datetime | None = Field(None, description="Landing files that were taken earlier go.")
    taken_from: datetime | None = Field(None, description="Those that were taken before are none of this step's.")
    files: int = Field(0, description="So many of them at most.")
    archive: bool = Field(False, description="They are kept in the archive.")


class Plan(BaseModel):
    """The steps for one table, in order, and what is left for another time with the reason for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    steps: tuple[Step, ...] = ()
    put_off: tuple[str, ...] = ()
