"""Whether an interval of silver is made of whole batches of its input, and takes none that another interval took.

By its contract it always is; but a schedule or a time zone may have been another one before.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse.batch import Batch
from lakehouse.cleaned import is_cleaned
from lakehouse.contracts.model import Silver
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Coverage, Interval, shown
from lakehouse.ledger import batches, taken_files


def check_whole(contract: Silver, interval: Interval, known: Sequence[Batch]) -> None:
    """Raises where records would be taken twice, or by no interval; `known` are the input's batches of the interval."""
    others = [batch.interval for batch in batches.published_across(contract.dataset, interval)]
    of_input = [one for one in batches.published_across(contract.reads, interval) if one.counts.get("rows_in")]
    told = shown(interval, contract.timezone)
    if wider := [one for one in others if interval in Coverage.of([one])]:
        raise LakehouseError(
            f"{contract.dataset} took {told} as a part of {shown(wider[0], contract.timezone)}; to take it again, "
            "write the schedule and the timezone that it had then"
        )
    if twice := [one for one in known if one.counts.get("rows_in") and one.interval in Coverage.of(others)]:
        raise LakehouseError(
            f"{contract.dataset}: {told} has a part that was taken with {shown(others[0], contract.timezone)}: what "
            f"{contract.reads} took for {shown(twice[0].interval, contract.timezone)}; write a schedule and a timezone "
            "whose intervals begin where those of before end"
        )
    held = Coverage.of([one for one in others if known and _has_all(contract, one)])
    if across := [one for one in of_input if one.interval not in held]:
        raise LakehouseError(
            f"{contract.dataset}: {told} has only a part of what {contract.reads} took for "
            f"{shown(across[0].interval, contract.timezone)}; give {contract.dataset} a schedule and a timezone whose "
            f"intervals are made of whole ones of {contract.reads}"
        )


def _has_all(contract: Silver, interval: Interval) -> bool:
    """Whether the dataset has all that its input holds for an interval, by whichever contract."""
    known, own = batches.published_in(contract.reads, interval), batches.published_in(contract.dataset, interval)
    mine = taken_files.corrections(contract.reads).of({batch.batch_id for batch in known})
    return bool(own) and is_cleaned(contract, interval, known, mine, own, own[0].contract_version)
