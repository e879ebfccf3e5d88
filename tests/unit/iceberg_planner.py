"""What Iceberg's rewrite_data_files takes of a table, by the rules of its BinPackRewriteFilePlanner in 1.12.

They are written down here from Iceberg's source, so that a plan can be compared with what would really be rewritten,
and with what comes out: files are cut between row groups, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.health.measured import LARGE, SMALL
from lakehouse.health.model import PartitionHealth
from lakehouse.jobs import Call

TARGET = 128 << 20
# What the writer of a rewrite begins a new file at.
WRITE_MAX = TARGET + int((1.8 * TARGET - TARGET) * 0.5)
LOOKBACK, OVERHEAD = 10, 5 * 1024
# The row groups that the platform's own files have, and those of a file that is one row group.
CUT, UNCUT = TARGET // 4, 1 << 40


@dataclass(frozen=True)
class File:
    """A data file of a partition, how many of its hundred rows are deleted, and the size of its row groups."""

    name: str
    where: str | None
    bytes: int
    deleted: int = 0
    dropped: bool = False
    row_group: int = CUT

    @property
    def splits(self) -> list[int]:
        whole, rest = divmod(self.bytes, self.row_group)
        return [self.row_group] * whole + [rest] * (rest > 0)


def measured(files: Iterable[File], **given: Any) -> list[PartitionHealth]:
    """The health of each partition that these files are in."""
    by_name: dict[str, list[File]] = {}
    for one in files:
        by_name.setdefault(one.name, []).append(one)
    return [_partition(name, those, given) for name, those in by_name.items()]


def _partition(name: str, files: Sequence[File], given: dict[str, Any]) -> PartitionHealth:
    small = [one.bytes for one in files if one.bytes < SMALL * TARGET]
    large = [one.bytes for one in files if one.bytes > LARGE * TARGET]
    facts = {
        "name": name,
        "where": files[0].where,
        "ends": None,
        "files": len(files),
        "bytes": sum(one.bytes for one in files),
        "rows": 100 * len(files),
        "median_bytes": 0,
        "small_files": max(0, len(small) - 1),
        "small_bytes": sum(small),
        "large_files": len(large),
        "large_bytes": sum(large),
        "delete_files": sum(one.deleted > 0 for one in files),
        "delete_bytes": 0,
        "deleted_rows": sum(one.deleted for one in files),
        "deletes_of_one_file": sum(one.deleted > 0 for one in files),
        "manifests": 1,
        "needed_files": max(1, -(-sum(one.bytes for one in files) // TARGET)),
        "dropped_files": sum(one.dropped for one in files),
    }
    return PartitionHealth.model_validate({**facts, **given})


def rewritten(files: Sequence[File], call: Call, row_group: int = CUT) -> tuple[list[File], int]:
    """The files after the call, which writes such row groups, and how many bytes it has read."""
    asked = set(call.where.split(" OR ")) if call.where else None
    picked = [one for one in files if asked is None or f"({one.where})" in asked]
    groups = [group for name in dict.fromkeys(one.name for one in picked) for group in _groups(picked, name, call)]
    left = int(call.options.get("max-files-to-rewrite", len(files)))
    after, read = list(files), 0
    for group in groups:
        taken, left = group[:left], left - len(group[:left])
        for one in taken:
            after.remove(one)
        after.extend(packed(taken, call, row_group))
        read += sum(one.bytes for one in taken)
    return after, read


def _groups(files: Sequence[File], name: str, call: Call) -> list[list[File]]:
    """A partition's files in bins, and of these the ones that are worth it."""
    everything, room = "rewrite-all" in call.options, int(call.options["max-file-group-size-bytes"])
    bins: list[list[File]] = []
    for one in files:
        if one.name == name and (everything or _wrong_size(one, call) or _too_many_deletes(one, call)):
            if not bins or sum(other.bytes for other in bins[-1]) + one.bytes > room:
                bins.append([])
            bins[-1].append(one)
    return [group for group in bins if everything or _worth_it(group, call)]


def _worth_it(group: Sequence[File], call: Call) -> bool:
    content, several = sum(one.bytes for one in group), len(group) > 1
    return (
        (several and len(group) >= int(call.options["min-input-files"]))
        or (several and content > TARGET)
        or content > LARGE * TARGET
        or any(_too_many_deletes(one, call) for one in group)
    )


def _least(call: Call) -> int:
    """A smaller file is of the wrong size."""
    return int(call.options.get("min-file-size-bytes", 0.75 * TARGET))


def _wrong_size(one: File, call: Call) -> bool:
    return not _least(call) <= one.bytes <= LARGE * TARGET


def _too_many_deletes(one: File, call: Call) -> bool:
    by_number = "delete-file-threshold" in call.options and one.deleted > 0
    return by_number or one.deleted / 100 >= float(call.options.get("delete-ratio-threshold", 0.3))


def packed(taken: Sequence[File], call: Call, row_group: int = CUT) -> list[File]:
    """What files of a partition become together; several where the writer finds that one gets too large."""
    if not taken:
        return []
    content = sum(one.bytes for one in taken)
    outputs = _outputs(content, _least(call))
    if call.sort_order:  # sorted rows may nearly all be in one of the ranges
        tasks = [content - outputs + 1] + [1] * (outputs - 1)
    else:
        size = max(TARGET, min(content // outputs + OVERHEAD, WRITE_MAX))
        tasks = bins([split for one in taken for split in one.splits], size)
    made = [size for task in tasks for size in [WRITE_MAX] * (task // WRITE_MAX) + [task % WRITE_MAX] if size]
    return [replace(taken[0], bytes=size, deleted=0, dropped=False, row_group=row_group) for size in made]


def _outputs(content: int, least: int) -> int:
    if content < TARGET:
        return 1
    whole, over = divmod(content, TARGET)
    if over > least:
        return whole + 1
    return whole if content // whole < min(1.1 * TARGET, WRITE_MAX) else whole + (over > 0)


def bins(splits: Iterable[int], size: int) -> list[int]:
    """Each split goes into the first open bin with room for it; of too many open ones the fullest is closed."""
    found, unfilled = [], []
    for split in splits:
        place = next((n for n, one in enumerate(unfilled) if one + split <= size), len(unfilled))
        unfilled[place : place + 1] = [split + sum(unfilled[place : place + 1])]
        if len(unfilled) > LOOKBACK:
            found.append(unfilled.pop(unfilled.index(max(unfilled))))
    return found + unfilled
