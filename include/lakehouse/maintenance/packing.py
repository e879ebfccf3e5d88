"""Which files are packed together: small ones, and those of whose rows many are deleted; in slices of which size.

What Iceberg takes is decided partition by partition, as it does itself, and all of it is counted: also files that are
so large that it cuts them up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakehouse.contracts.keeping import Maintenance
from lakehouse.health.measured import LARGE
from lakehouse.health.model import PartitionHealth
from lakehouse.maintenance.rewrite_step import Scope, Work, rewrite_step
from lakehouse.maintenance.step import Step
from lakehouse.maintenance.units import Unit, counted, named, together
from lakehouse.wording import size

# Many small files beside large ones need many steps, as each may meet a large one: these are for several windows.
_MOST_PARTS = 50
# So many files at least, whatever their size: a small one alone would be written again as it is, time after time.
_LEAST = 2


class _Kind(NamedTuple):
    """Files of about one size."""

    files: int
    bytes: int

    @property
    def mean(self) -> int:
        return max(1, self.bytes // max(1, self.files))


@dataclass(frozen=True)
class _Pack:
    """What Iceberg takes of a unit."""

    unit: Unit
    deletes: bool  # also files of the right size that have deletes
    touched: tuple[PartitionHealth, ...]
    kinds: tuple[_Kind, ...]

    @property
    def files(self) -> int:
        return sum(kind.files for kind in self.kinds)

    @property
    def bytes(self) -> int:
        return sum(kind.bytes for kind in self.kinds)

    @property
    def gain(self) -> float:
        """Files that a reader opens less, for each byte that is written."""
        opened_less = sum(one.files + one.delete_files - one.needed_files for one in self.touched)
        return opened_less / max(1, self.bytes)


@dataclass(frozen=True)
class _Portion:
    """What is done of it in this window: so many of its parts."""

    pack: _Pack
    part: Work
    parts: int
    now: int

    @property
    def most(self) -> int:
        return min(self.pack.bytes, self.now * self.part.most)

    @property
    def left(self) -> int:
        return self.pack.bytes * (self.parts - self.now) // self.parts


def needs_packing(unit: Unit, policy: Maintenance) -> bool:
    return any(_many_small(one, policy) or _many_deleted(one, policy) for one in unit.partitions)


def packs(scope: Scope, units: Iterable[Unit], budget: int) -> tuple[list[Step], list[str]]:
    """The steps that fit into what is left of a window's budget, and what does not.

    Of a whole budget the first goes in, whatever its size, or it would never have its turn.
    """
    needy = [_pack(unit, scope.policy) for unit in units if needs_packing(unit, scope.policy)]
    needy.sort(key=lambda one: (-one.gain, one.touched[0].name))
    portions = list(_portions(scope, needy, budget))
    steps = [step for group in _groups(scope, portions) for step in _steps(scope, group)]
    over = [one for one in portions if one.left]
    if not over:
        return steps, []
    where = counted(sum(len(one.pack.touched) for one in over), "partition")
    work = size(sum(one.left for one in over))
    return steps, [f"{work} in {where} are beyond this window's {size(scope.budget_bytes)}"]


def _many_small(one: PartitionHealth, policy: Maintenance) -> bool:
    return _small(one).files >= policy.min_input_files


def _many_deleted(one: PartitionHealth, policy: Maintenance) -> bool:
    return one.deleted_rows > 0 and one.deleted_share > policy.deleted_share


def _small(one: PartitionHealth) -> _Kind:
    # The one that every partition may have is left out of `small_files`.
    return _Kind(one.small_files + 1 if one.small_bytes else 0, one.small_bytes)


def _pack(unit: Unit, policy: Maintenance) -> _Pack:
    deletes = any(_many_deleted(one, policy) for one in unit.partitions)
    taken = [(one, _kinds(one, policy, deletes=deletes)) for one in unit.partitions]
    return _Pack(
        unit=unit,
        deletes=deletes,
        touched=tuple(one for one, kinds in taken if kinds),
        kinds=tuple(kind for _, kinds in taken for kind in kinds),
    )


def _kinds(one: PartitionHealth, policy: Maintenance, *, deletes: bool) -> list[_Kind]:
    """The files of a partition that Iceberg takes; where it asks for deletes, which files have some is not known."""
    small, large = _small(one), _Kind(one.large_files, one.large_bytes)
    if deletes and one.delete_files:
        return [kind for kind in (small, _right_with_deletes(one), large) if kind.files > 0]
    files, content = small.files + large.files, small.bytes + large.bytes
    enough = files >= policy.min_input_files or (files > 1 and content > policy.target_bytes) or large.files
    return [kind for kind in (small, large) if kind.files] if enough else []


def _right_with_deletes(one: PartitionHealth) -> _Kind:
    """Files of the right size that may have deletes: as many as there are of these, where each belongs to one file."""
    small = _small(one)
    right = _Kind(one.files - small.files - one.large_files, one.bytes - small.bytes - one.large_bytes)
    if one.deletes_of_one_file < one.delete_files:
        return right
    files = min(right.files, one.delete_files)
    return _Kind(files, files * right.mean)


def _portions(scope: Scope, needy: Sequence[_Pack], budget: int) -> Iterator[_Portion]:
    room, untouched = min(scope.slice_bytes, scope.budget_bytes), budget >= scope.budget_bytes
    for one in needy:
        parts, part = _parts(one, room)
        useful = min(parts, max(_MOST_PARTS, -(-one.bytes // part.most)))
        now = useful if one.bytes <= budget else max(min(useful, budget // part.most), int(untouched))
        portion = _Portion(one, part, parts, now)
        budget -= portion.most
        untouched = untouched and not now
        yield portion


def _parts(one: _Pack, room: int) -> tuple[int, Work]:
    """In how many parts it is done, so that each fits, were its files always the largest; and what one part takes.

    Iceberg can be told how many files to take, and not how many bytes.
    """
    kinds = sorted(one.kinds, key=lambda kind: -kind.mean)
    parts = -(-one.files // max(_fitting(kinds, room), _LEAST))
    files = min(one.files, max(-(-one.files // parts), _LEAST))
    return parts, Work(files, -(-one.bytes // parts), max(1, _bytes_of(kinds, files)))


def _fitting(largest_first: Sequence[_Kind], room: int) -> int:
    """How many files there is room for, the largest first."""
    files = 0
    for kind in largest_first:
        fit = min(kind.files, room // kind.mean)
        files, room = files + fit, room - fit * kind.mean
        if fit < kind.files:
            break
    return files


def _bytes_of(largest_first: Sequence[_Kind], files: int) -> int:
    """The bytes of so many files, the largest first."""
    found = 0
    for kind in largest_first:
        taken = min(kind.files, files)
        found, files = found + kind.bytes * taken // kind.files, files - taken
    return found


def _groups(scope: Scope, portions: Sequence[_Portion]) -> Iterator[list[_Portion]]:
    """Units that go together in one step: what asks for deletes does so for all of them, and is apart from others."""
    for deletes in (False, True):
        whole = [one for one in portions if one.now and one.parts == 1 and one.pack.deletes is deletes]
        yield from together(whole, lambda one: one.pack.bytes, scope.slice_bytes)
    yield from ([one] for one in portions if one.now and one.parts > 1)


def _steps(scope: Scope, group: Sequence[_Portion]) -> Iterator[Step]:
    first, packed = group[0], [one.pack for one in group]
    work = Work(
        files=sum(one.part.files for one in group),
        bytes=sum(one.part.bytes for one in group),
        most=sum(one.part.most for one in group),
    )
    # Without a threshold Iceberg would also take files of which 30 % are deleted. Where all with deletes are meant, it
    # is their number that finds them: rows are counted only where a delete names its file.
    options = {"delete-file-threshold": "1"} if first.pack.deletes else {"delete-ratio-threshold": "1.0"}
    reason = _reason([one for pack in packed for one in pack.touched], scope.policy)
    for number in range(first.now):
        part = f" (part {number + 1} of {first.parts})" if first.parts > 1 else ""
        yield rewrite_step(scope, [pack.unit for pack in packed], work, reason + part, options)


def _reason(touched: Sequence[PartitionHealth], policy: Maintenance) -> str:
    small = sum(_small(one).files for one in touched if _many_small(one, policy))
    large, deleted = sum(one.large_files for one in touched), [one for one in touched if _many_deleted(one, policy)]
    files, target = sum(one.files for one in touched), policy.target_bytes
    facts = [f"{small} of {files} files are smaller than half of {policy.target_file_mb} MB"] if small else []
    if large:
        facts.append(f"{large} of {files} files are larger than {size(LARGE * target)}")
    if deleted:
        rows = sum(one.deleted_rows for one in deleted)
        facts.append(f"{rows} of {sum(one.rows for one in deleted)} rows are deleted but still read and skipped")
    return f"in {named(touched)} {' and '.join(facts)}"
