"""Whether what a table holds is what its inputs, files and contract would make of it now. Pure, and as a run decides.

A run that is asked for decides once more, under the lease, and does nothing where there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lakehouse.backfill.plan import Outdated
from lakehouse.backfill.scope import overlap
from lakehouse.batch import PUBLISHED, UNDONE, Batch, Corrections
from lakehouse.cleaned import is_cleaned
from lakehouse.contracts.model import Gold, Silver
from lakehouse.intervals import Interval

NEW_FILES = Outdated("landing holds files that were not taken")
CONTRACT_CHANGED = Outdated("the contract has changed")


def cleaned(
    contract: Silver,
    intervals: Collection[Interval],
    inputs: Sequence[Batch],
    corrections: Corrections,
    own: Sequence[Batch],
) -> dict[Interval, Outdated]:
    """The intervals of silver, among these that it holds, that are outdated.

    `inputs` are the settled batches of what it reads, `own` its published ones; both newest first.
    """
    found = {one: _cleaned(contract, one, _within(inputs, one), corrections, _within(own, one)) for one in intervals}
    return {interval: outdated for interval, outdated in found.items() if outdated}


def _cleaned(
    contract: Silver, interval: Interval, inputs: Sequence[Batch], corrections: Corrections, own: Sequence[Batch]
) -> Outdated | None:
    known = [one for one in inputs if one.state == PUBLISHED]
    mine = corrections.of({one.batch_id for one in known})
    if known and is_cleaned(contract, interval, known, mine, own):
        return None
    if any(one.state == UNDONE for one in inputs):
        return Outdated(f"it was built from what was undone in {contract.reads}", undone=True)
    if own and own[0].contract_version != contract.version:
        return CONTRACT_CHANGED
    return Outdated(f"{contract.reads} was published again")


def _within(batches: Sequence[Batch], interval: Interval) -> list[Batch]:
    return [one for one in batches if interval.start <= one.interval_start and one.interval_end <= interval.end]


@dataclass(frozen=True)
class Moved:
    """What became of an input since gold took it in.

    `batches` made its later versions, "" stands for one that no batch made; `lost` where main no longer leads back to
    the version that was taken in, `undone` if that is because main left it.
    """

    batches: tuple[str, ...] = ()
    lost: bool = False
    undone: bool = False


def built(
    contract: Gold,
    intervals: Collection[Interval],
    absorbed_contract: str | None,
    moved: Mapping[str, Moved],
    inputs: Mapping[str, Batch],
    undone: Collection[Interval] = (),
) -> tuple[dict[Interval, Outdated], Outdated | None]:
    """The intervals of gold, among these that it holds, that are outdated, and whether the table as a whole is.

    One build takes in all that has changed in any interval: so what belongs to no interval needs one build of any.
    `inputs` has the batches that `moved` names, by id; `undone` what was rolled back in anything that it is made from.
    """
    found: dict[Interval, Outdated] = {}
    for name, change in moved.items():
        again = [inputs[one].interval for one in change.batches if one in inputs and inputs[one].of_interval]
        for interval in intervals:
            if any(overlap(interval, one) for one in again):
                taken_back = any(overlap(interval, one) for one in undone)
                found[interval] = Outdated(f"{name} was published again", taken_back)
    return found, _stale(contract, absorbed_contract, moved, inputs)


def _stale(
    contract: Gold, absorbed_contract: str | None, moved: Mapping[str, Moved], inputs: Mapping[str, Batch]
) -> Outdated | None:
    for name, change in moved.items():
        if change.undone:
            return Outdated(f"it was built from what was undone in {name}", undone=True)
        if change.lost or any(one not in inputs or not inputs[one].of_interval for one in change.batches):
            return Outdated(f"{name} has changed")
    return CONTRACT_CHANGED if absorbed_contract not in (None, contract.version) else None
