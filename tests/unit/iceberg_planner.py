"""What Iceberg's rewrite_data_files takes of a table, by the rules of its BinPackRewriteFilePlanner in 1.12.

They are written down here from Iceberg's source, so that a plan can be compared with what would really be rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.health.measured import LARGE, SMALL
from lakehouse.health.model import PartitionHealth
from lakehouse.jobs import Call

TARGET = 128 << 20


@dataclass(frozen=True)
class File:
    """A data file of a partition, and how many of its hundred rows are deleted."""

    name: str
    where: str | None
    bytes: int
    deleted: int = 0
    dropped: bool = False


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
        "manifests": 1,
        "needed_files": max(1, -(-sum(one.bytes for one in files) // TARGET)),
        "dropped_files": sum(one.dropped for one in files),
    }
    return PartitionHealth.model_validate({**facts, **given})


def rewritten(files: Sequence[File], call: Call) -> tuple[list[File], int]:
    """The files after the call, and how many bytes it has read."""
    asked = set(call.where.split(" OR ")) if call.where else None
    picked = [one for one in files if asked is None or f"({one.where})" in asked]
    groups = [group for name in dict.fromkeys(one.name for one in picked) for group in _groups(picked, name, call)]
    left = int(call.options.get("max-files-to-rewrite", len(files)))
    after, read = list(files), 0
    for group in groups:
        taken, left = group[:left], left - len(group[:left])
        for one in taken:
            after.remove(one)
        after.extend(packed(taken))
        read += sum(one.bytes for one in taken)
    return after, read


def _groups(files: Sequence[File], name: str, call: Call) -> list[list[File]]:
    """A partition's files in bins, and of these the ones that are worth it."""
    everything, room = "rewrite-all" in call.options, int(call.options["max-file-group-size-bytes"])
    bins: list[list[File]] = []
    for one in files:
        if one.name == name and (everything or _wrong_size(one) or _too_many_deletes(one, call)):
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


def _wrong_size(one: File) -> bool:
    return not SMALL * TARGET <= one.bytes <= LARGE * TARGET


def _too_many_deletes(one: File, call: Call) -> bool:
    by_number = "delete-file-threshold" in call.options and one.deleted > 0
    return by_number or one.deleted / 100 >= float(call.options.get("delete-ratio-threshold", 0.3))


def packed(taken: Sequence[File]) -> list[File]:
    """What files of a partition become together."""
    if not taken:
        return []
    content = sum(one.bytes for one in taken)
    count = max(1, content // TARGET)
    if content > TARGET and (content % TARGET > SMALL * TARGET or content // count >= 1.1 * TARGET):
        count += content % TARGET > 0
    return [replace(taken[0], bytes=content // count, deleted=0, dropped=False) for _ in range(count)]
