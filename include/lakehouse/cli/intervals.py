"""Intervals and landing folders as somebody names them on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lakehouse.backfill.days import span
from lakehouse.errors import LakehouseError
from lakehouse.intervals import typed

if TYPE_CHECKING:
    from lakehouse.contracts import AnyContract, Bronze
    from lakehouse.intervals import Interval


def with_landing(dataset: str) -> Bronze:
    """The contract of a dataset that has a landing folder; others are refused."""
    from lakehouse.contracts import Bronze, contract

    found = contract(dataset)
    if not isinstance(found, Bronze):
        raise LakehouseError(f"{dataset} has no landing folder; name a bronze dataset")
    return found


def interval(contract: AnyContract, text: str) -> Interval:
    """The contract's interval that begins then, in its own zone unless the text names one; for a day, its first one."""
    asked = span(text, text, ZoneInfo(contract.timezone))
    found = contract.interval_after(asked.start)
    if found.start < asked.end:
        return found
    around = typed(contract.interval_around(asked.start), contract.timezone)
    raise LakehouseError(
        f"no interval of {contract.dataset} begins at {text}: its schedule is {contract.schedule} in "
        f"{contract.timezone}; for the one around it, write {around}"
    )
