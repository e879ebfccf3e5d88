"""A step that rewrites data files: its call, and what it does in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakehouse.contracts.keeping import Maintenance
from lakehouse.health.measured import SMALL
from lakehouse.jobs import Call
from lakehouse.maintenance.step import Step
from lakehouse.maintenance.units import Unit
from lakehouse.naming import quoted
from lakehouse.wording import size


@dataclass(frozen=True)
class Scope:
    """Which table's files are rewritten, and by which rules."""

    table: str
    policy: Maintenance
    sort: bool  # by the contract's columns; a companion has others

    @property
    def slice_bytes(self) -> int:
        return self.policy.slice_mb << 20

    @property
    def budget_bytes(self) -> int:
        return self.policy.budget_mb << 20


@dataclass(frozen=True)
class Work:
    """What a step takes: so many files at most, about so many bytes, and at most so many."""

    files: int
    bytes: int
    most: int


def rewrite_step(
    scope: Scope, units: Sequence[Unit], work: Work, reason: str, options: Mapping[str, str], after: str = ""
) -> Step:
    """Rewrite files of these units, and no more of them than that work."""
    return Step(
        table=scope.table,
        operation="rewrite_data_files",
        reason=reason,
        does=_does(scope, work) + after,
        bytes=work.bytes,
        call=Call(
            procedure="rewrite_data_files",
            where=" OR ".join(f"({unit.where})" for unit in units) if units[0].where else None,
            sort_order=_sort_order(scope),
            options={**_options(scope.policy), "max-files-to-rewrite": str(work.files), **options},
        ),
    )


def _does(scope: Scope, work: Work) -> str:
    columns = ", ".join(scope.policy.sort_by)
    ordered = {"sort": f", sorted by {columns}", "zorder": f", with rows close to each other in {columns} together"}
    how = ordered.get(scope.policy.way, "") if scope.sort else ""
    waits = (
        f" A writer waits for up to {size(work.most)}, which cannot be cut into slices of {size(scope.slice_bytes)}."
    )
    return f"Reads about {size(work.bytes)} and writes it again as few large files{how}. The rows stay the same." + (
        waits if work.most > scope.slice_bytes else ""
    )


def _sort_order(scope: Scope) -> str | None:
    columns = ", ".join(quoted(column) for column in scope.policy.sort_by)
    orders = {"sort": columns, "zorder": f"zorder({columns})"}
    return orders.get(scope.policy.way) if scope.sort else None


def _options(policy: Maintenance) -> dict[str, str]:
    return {
        "target-file-size-bytes": str(policy.target_bytes),
        # By itself Iceberg takes files below three quarters. Of these, those that are one row group each come out as
        # they were, time after time: none of them fits to another.
        "min-file-size-bytes": str(int(SMALL * policy.target_bytes)),
        "min-input-files": str(policy.min_input_files),
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "4",
        # In a smaller group, Iceberg could find a few small files too little to be worth it.
        "max-file-group-size-bytes": str(max(policy.slice_mb << 20, 3 * policy.target_bytes)),
        "max-concurrent-file-group-rewrites": "2",
        "remove-dangling-deletes": "true",
    }
