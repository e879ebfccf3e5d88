"""Which partitions are rewritten, in which order, and in slices of which size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from lakehouse.contracts.keeping import Maintenance
from lakehouse.health.model import PartitionHealth, TableHealth
from lakehouse.jobs import Call
from lakehouse.maintenance.step import Step
from lakehouse.naming import quoted
from lakehouse.wording import size

# A condition that names more partitions than this is slow to plan.
_MOST_TOGETHER = 50
REWRITE_ALL = "rewrite-all"


def rewrites(
    table: str, policy: Maintenance, found: TableHealth, open_from: datetime | None, *, sort: bool
) -> tuple[list[Step], list[str]]:
    """The steps that rewrite files, and what is put off. Only partitions that need it; never one being written."""
    needy = [one for one in found.partitions if _needs(one, policy)]
    still_open = [one for one in needy if _is_open(one, open_from)]
    chosen, over = _within([one for one in needy if one not in still_open], policy)
    steps = [step for group in _slices(chosen, policy) for step in _steps(table, policy, group, sort=sort)]
    later = [f"{one.name} is still being written" for one in still_open]
    if over:
        work = size(sum(_work(one, policy) for one in over))
        later.append(f"{len(over)} more partitions ({work}) are beyond this window's {size(policy.budget_mb << 20)}")
    return steps, later


def purges(
    table: str, policy: Maintenance, found: TableHealth, open_from: datetime | None, now: datetime, *, sort: bool
) -> tuple[list[Step], list[str]]:
    """The steps that take dropped columns out of files, once they are old enough, and what is put off.

    As much as a window's budget. A table that no condition divides would be rewritten in one step, under its lease:
    that is put off where it is more than the budget.
    """
    if found.last_with_dropped is not None and now - found.last_with_dropped < policy.dropped_after:
        return [], []
    budget = policy.budget_mb << 20
    steps: list[Step] = []
    closed = [one for one in found.partitions if one.dropped_files and not _is_open(one, open_from)]
    for group in _slices(closed, policy):
        work = sum(one.bytes for one in group)
        if work > budget and group[0].where is None:
            return steps, [
                f"{size(work)} that hold dropped columns are beyond this window's {size(policy.budget_mb << 20)}"
            ]
        if steps and work > budget:
            break
        budget -= work
        steps.append(_purge(table, policy, group, sort=sort))
    return steps, []


def _purge(table: str, policy: Maintenance, group: list[PartitionHealth], *, sort: bool) -> Step:
    files, work = sum(one.dropped_files for one in group), sum(one.bytes for one in group)
    return Step(
        table=table,
        operation="rewrite_data_files",
        reason=f"in {_named(group)} {files} files still hold columns that were dropped",
        does=_does(policy, work, sort=sort) + " What was dropped is gone once older versions have expired.",
        bytes=work,
        call=Call(
            procedure="rewrite_data_files",
            where=_where(group),
            sort_order=_sort_order(policy) if sort else None,
            options=_options(policy, group) | {REWRITE_ALL: "true"},
        ),
    )


def _named(group: Sequence[PartitionHealth]) -> str:
    first, more = group[0].name or "the table", len(group) - 1
    return first + (f" and {more} more partition{'s' if more > 1 else ''}" if more else "")


def _where(group: Sequence[PartitionHealth]) -> str | None:
    return " OR ".join(f"({one.where})" for one in group) if group[0].where else None


def _needs(one: PartitionHealth, policy: Maintenance) -> bool:
    return _many_small(one, policy) or _many_deleted(one, policy)


def _many_small(one: PartitionHealth, policy: Maintenance) -> bool:
    # One small file more than is counted: the one that every partition may have.
    return one.small_files + 1 >= policy.min_input_files


def _many_deleted(one: PartitionHealth, policy: Maintenance) -> bool:
    return one.deleted_rows > 0 and one.deleted_share > policy.deleted_share


def _is_open(one: PartitionHealth, open_from: datetime | None) -> bool:
    return open_from is not None and one.ends is not None and one.ends > open_from


def _work(one: PartitionHealth, policy: Maintenance) -> int:
    """About as many bytes are read and written again."""
    return one.bytes if one.dropped_files or _many_deleted(one, policy) else one.small_bytes


def _within(
    needy: Sequence[PartitionHealth], policy: Maintenance
) -> tuple[list[PartitionHealth], list[PartitionHealth]]:
    """What fits into the window's budget, where most is won for each byte first; and the rest."""
    budget = policy.budget_mb << 20
    chosen: list[PartitionHealth] = []
    over: list[PartitionHealth] = []
    for one in sorted(needy, key=lambda one: (-_gain(one, policy), one.name)):
        work = _work(one, policy)
        # The first goes in whatever its size, or it would never have its turn.
        if work <= budget or not chosen:
            chosen.append(one)
            budget -= work
        else:
            over.append(one)
    return chosen, over


def _gain(one: PartitionHealth, policy: Maintenance) -> float:
    opened_less = one.files + one.delete_files - one.needed_files
    return opened_less / max(1, _work(one, policy))


def _slices(chosen: Iterable[PartitionHealth], policy: Maintenance) -> Iterator[list[PartitionHealth]]:
    """Partitions that are rewritten together; those that no condition can pick are one slice, the whole table."""
    together: list[PartitionHealth] = []
    whole = []
    room = policy.slice_mb << 20
    for one in chosen:
        if one.where is None:
            whole.append(one)
            continue
        if together and (room < _work(one, policy) or len(together) == _MOST_TOGETHER):
            yield together
            together, room = [], policy.slice_mb << 20
        together.append(one)
        room -= _work(one, policy)
    if together:
        yield together
    if whole:
        yield whole


def _steps(table: str, policy: Maintenance, group: list[PartitionHealth], *, sort: bool) -> Iterator[Step]:
    """One step, or as many as it takes where the group is larger than a slice."""
    work, room = sum(_work(one, policy) for one in group), policy.slice_mb << 20
    times = max(1, -(-work // room))
    files = sum(one.files if _many_deleted(one, policy) else one.small_files + 1 for one in group)
    # Fewer files than min_input_files would not be taken at all.
    most = max(-(-files // times), policy.min_input_files)
    for number in range(times):
        yield Step(
            table=table,
            operation="rewrite_data_files",
            reason=_reason(group, policy) + (f" (part {number + 1} of {times})" if times > 1 else ""),
            does=_does(policy, min(work, room), sort=sort),
            bytes=min(work, room),
            call=Call(
                procedure="rewrite_data_files",
                where=_where(group),
                sort_order=_sort_order(policy) if sort else None,
                options=_options(policy, group) | ({"max-files-to-rewrite": str(most)} if times > 1 else {}),
            ),
        )


def _reason(group: Sequence[PartitionHealth], policy: Maintenance) -> str:
    small = sum(one.small_files + 1 for one in group if _many_small(one, policy))
    files, deleted = sum(one.files for one in group), [one for one in group if _many_deleted(one, policy)]
    facts = [f"{small} of {files} files are smaller than three quarters of {policy.target_file_mb} MB"] if small else []
    if deleted:
        rows = sum(one.deleted_rows for one in deleted)
        facts.append(f"{rows} of {sum(one.rows for one in deleted)} rows are deleted but still read and skipped")
    return f"in {_named(group)} {' and '.join(facts)}"


def _does(policy: Maintenance, work: int, *, sort: bool) -> str:
    columns = ", ".join(policy.sort_by)
    ordered = {"sort": f", sorted by {columns}", "zorder": f", with rows close to each other in {columns} together"}
    how = ordered.get(policy.way, "") if sort else ""
    return f"Reads about {size(work)} and writes it again as few large files{how}. The rows stay the same."


def _sort_order(policy: Maintenance) -> str | None:
    columns = ", ".join(quoted(column) for column in policy.sort_by)
    orders = {"sort": columns, "zorder": f"zorder({columns})"}
    return orders.get(policy.way)


def _options(policy: Maintenance, group: Sequence[PartitionHealth]) -> dict[str, str]:
    # Iceberg counts deleted rows only where a delete names its file: by the number of deletes it finds them all.
    deleted = any(_many_deleted(one, policy) for one in group)
    return {
        "target-file-size-bytes": str(policy.target_bytes),
        "min-input-files": str(policy.min_input_files),
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "4",
        "max-file-group-size-bytes": str(policy.slice_mb << 20),
        "max-concurrent-file-group-rewrites": "2",
        "remove-dangling-deletes": "true",
        **({"delete-file-threshold": "1"} if deleted else {}),
    }
