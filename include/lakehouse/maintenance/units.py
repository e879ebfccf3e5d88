"""Units of rewriting: partitions that one condition picks. They are rewritten together, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import TypeVar

from lakehouse.health.model import PartitionHealth

T = TypeVar("T")
# A condition that names more partitions than this is slow to plan.
_MOST_TOGETHER = 50
# What ends later than this is no time that batches will come to: somebody wrote a wrong year.
_FAR = timedelta(days=2 * 366)


@dataclass(frozen=True)
class Unit:
    """All partitions that a condition picks, as those of a day's buckets have one; None picks the whole table."""

    where: str | None
    partitions: tuple[PartitionHealth, ...]

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.partitions)


@dataclass(frozen=True)
class Units:
    """A table in units: those that may be rewritten, and those that may not."""

    closed: tuple[Unit, ...]
    still_open: tuple[Unit, ...]
    unpicked: Unit | None  # no condition picks these; the whole table would go along


def divided(found: Sequence[PartitionHealth], open_from: datetime | None, now: datetime) -> Units:
    """The partitions in units. Still open is one whose condition picks anything that is being written."""
    by_where: dict[str | None, list[PartitionHealth]] = {}
    for one in found:
        by_where.setdefault(one.where, []).append(one)
    unpicked = by_where.pop(None, []) if len(by_where) > 1 else []
    units = [Unit(where, tuple(those)) for where, those in by_where.items()]
    written = {unit.where for unit in units if any(_is_written(one, open_from, now) for one in unit.partitions)}
    longest = max((len(_parts(where)) for where in written), default=0)
    touching = {unit.where for unit in units if unit.where in written or _is_wider(unit, written, longest)}
    return Units(
        closed=tuple(unit for unit in units if unit.where not in touching),
        still_open=tuple(unit for unit in units if unit.where in touching),
        unpicked=Unit(None, tuple(unpicked)) if unpicked else None,
    )


def _is_written(one: PartitionHealth, open_from: datetime | None, now: datetime) -> bool:
    return open_from is not None and one.ends is not None and open_from < one.ends <= max(now, open_from) + _FAR


def _is_wider(unit: Unit, written: Iterable[str | None], longest: int) -> bool:
    """Whether its condition picks some of these, too, as that of an older and coarser partitioning does."""
    own = _parts(unit.where)
    return len(own) < longest and any(own < _parts(where) for where in written)


def _parts(where: str | None) -> frozenset[str]:
    return frozenset(where.split(" AND ")) if where else frozenset()


def named(partitions: Sequence[PartitionHealth]) -> str:
    """These partitions in a few words."""
    first, more = partitions[0].name or "the table", len(partitions) - 1
    return first + (f" and {counted(more, 'more partition')}" if more else "")


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def together(all_of: Iterable[T], work: Callable[[T], int], room: int) -> Iterator[list[T]]:
    """Neighbours in groups of no more work than there is room for; what is larger is a group of its own."""
    group: list[T] = []
    left = room
    for one in all_of:
        if group and (left < work(one) or len(group) == _MOST_TOGETHER):
            yield group
            group, left = [], room
        group.append(one)
        left -= work(one)
    if group:
        yield group


def partitions_of(units: Iterable[Unit]) -> list[PartitionHealth]:
    return list(chain.from_iterable(unit.partitions for unit in units))
