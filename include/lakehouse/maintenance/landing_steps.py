"""The steps that clear landing, and why files stay, from what is known of them. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from lakehouse.contracts.fields import write_duration
from lakehouse.contracts.model import Bronze, Contract
from lakehouse.jobs import Maintained
from lakehouse.maintenance.landing_files import Clearing
from lakehouse.maintenance.landing_folders import Leaving, whole_files
from lakehouse.maintenance.step import Step
from lakehouse.naming import ARCHIVE
from lakehouse.wording import size

MOST_AT_ONCE = 1_000  # files in a slice


def cleared(contract: Contract, found: Clearing | None, now: datetime) -> tuple[list[Step], list[str]]:
    """Slices that a writer waits for seconds for; and why other files stay."""
    if found is None or not isinstance(contract, Bronze) or contract.source.kept is None:
        return [], []
    kept = contract.source.kept
    past = f"past the {write_duration(kept)} that the contract keeps them in landing"
    slices = whole_files(found.leaving, MOST_AT_ONCE, contract.maintenance.slice_mb << 20)
    steps = [_step(contract, mine, past, now - kept) for mine in slices]
    held = [f"{count} landing files are {past}, and stay: {why}" for why, count in sorted(found.staying.items())]
    if found.later:
        turn = "; they have their turn in the next window" if found.leaving else ", and wait behind those that stay"
        held.append(f"more landing files are {past}{turn}")
    return steps, held


def _step(contract: Bronze, mine: Sequence[Leaving], past: str, before: datetime) -> Step:
    there = [one for one in mine if one.version]
    files = {one.file.uri for one in there}
    size_of_all = sum(one.file.bytes for one in there)
    archive = contract.source.archive_after is not None
    how = f"Copies them to {ARCHIVE}, looks at the copies, and removes them" if archive else "Deletes them for good"
    return Step(
        table=contract.dataset,
        operation="clear_landing",
        reason=_reason(len(files), size_of_all, len({one.file.uri for one in mine} - files), past),
        does=f"{how}; what is delivered meanwhile stays, and so do markers and manifests. Bronze keeps their records, "
        "and cannot go back to before it took them.",
        bytes=size_of_all if archive else 0,
        taken_before=before,
        taken_from=min(one.file.taken_at for one in mine),
        files=len(mine),
        archive=archive,
    )


def _reason(files: int, bytes_: int, absent: int, past: str) -> str:
    noted = f"{absent} files that are {past} are not there any more, which is noted"
    if not files:
        return noted
    return f"{files} landing files, {size(bytes_)}, are {past}" + (f"; {noted}" if absent else "")


def went(answer: Maintained) -> str:
    """What came of a step."""
    return f"{answer.counters.get('files', 0)} files went, {size(answer.counters.get('bytes', 0))}{stayed(answer)}"


def stayed(answer: Maintained) -> str:
    """The files that the store did not remove, and why."""
    failed = answer.counters.get("failed")
    return f", {failed} failed and stay: {answer.failure}" if failed else ""
