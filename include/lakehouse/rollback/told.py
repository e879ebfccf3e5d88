"""A rollback as people see it: what would change, what is undone, and what has to be built again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakehouse.advice import run_again
from lakehouse.catalog import rows_from, table
from lakehouse.contracts.model import AnyContract, Silver
from lakehouse.diff import difference
from lakehouse.identities import acting_as
from lakehouse.intervals import is_gone
from lakehouse.ledger.rollbacks import Rollback
from lakehouse.query import QueryError
from lakehouse.roles import Role
from lakehouse.rollback.carried_out import apply as carry_out
from lakehouse.rollback.downstream import Downstream, downstream
from lakehouse.rollback.planned import plan, undone_intervals
from lakehouse.settling import settle
from lakehouse.versions import existing

SAMPLE = 5


@acting_as(Role.MAINTENANCE)
def roll_back(
    contract: AnyContract, to: str, contracts: Iterable[AnyContract], *, by: str, why: str, apply: bool
) -> list[str]:
    """Show what going to that version changes, and do it if asked. Call it under the lease."""
    settle(contract.dataset)
    planned = plan(contract, to)
    lines = [*_preview(contract, planned), *_to_be_built(contract, planned, contracts)]
    if not apply:
        return [*lines, "nothing was changed"]
    carry_out(planned, by, why)
    return [*lines, f"{contract.dataset} is at {planned.moves[-1].after}"]


def _preview(contract: AnyContract, planned: Rollback) -> Iterator[str]:
    yield from _rows(contract, planned)
    for batch_id in planned.undone:
        yield f"undone: {batch_id}"
    for batch_id in planned.redone:
        yield f"done again: {batch_id}"


def _rows(contract: AnyContract, planned: Rollback) -> Iterator[str]:
    """What becomes of the rows; a version that cannot be read any more is no reason to stay at it."""
    own = planned.moves[-1]
    way = f"{planned.dataset}: {own.before} → {own.after}"
    try:
        found = difference(contract, existing(planned.dataset), own.before, own.after, SAMPLE)
    except QueryError as error:
        yield f"{way}; rows cannot be compared: {error}"
        return
    yield f"{way}; rows: " + ", ".join(f"{count} {what}" for what, count in found.counts.items())
    for what, *values in found.sample:
        yield f"  {what}: " + " ".join(f"{name}={value}" for name, value in zip(found.columns, values, strict=True))


def _to_be_built(contract: AnyContract, planned: Rollback, contracts: Iterable[AnyContract]) -> Iterator[str]:
    """The commands that build again what is undone and what was built from it, in this order."""
    if undone := undone_intervals(planned):
        yield f"to be built again: {run_again(contract, undone)}"
    for one in downstream(planned, contracts):
        yield from _built_from(one)


def _built_from(one: Downstream) -> Iterator[str]:
    """What to do with another dataset. What it made of records that were let go is not undone, nor built again."""
    contract = one.contract
    kept_from = rows_from(table(contract.reads)) if isinstance(contract, Silver) else None
    again = tuple(interval for interval in one.intervals if not is_gone(interval, kept_from))
    if isinstance(contract, Silver) and len(again) < len(one.intervals):
        told = f"what {contract.dataset} has from before {kept_from}, as {contract.reads} has let these rows go"
        yield f"built from what is undone, and stays: {told}"
    elif isinstance(contract, Silver) and one.before is not None:  # it only adds and changes rows
        back = f"lakehouse rollback {contract.dataset} --to {one.before} --yes --why …"
        yield f"built from what is undone, unless the same comes again: {back}"
    if again:
        yield f"built from what is undone, to be built again: {run_again(contract, again)}"
