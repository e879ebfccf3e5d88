"""Looking at the tables of datasets: each is measured, scored by its contract, and the result kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from lakehouse.catalog import table
from lakehouse.contracts.model import AnyContract
from lakehouse.errors import LakehouseError
from lakehouse.health.measured import health
from lakehouse.health.model import TableHealth
from lakehouse.health.score import Concern, Score, concerns, score
from lakehouse.ledger import health as kept


class NoSuchTable(LakehouseError, LookupError):
    """No contract has a table of that name."""


@dataclass(frozen=True)
class Inspected:
    """A table, whose it is, and how it is."""

    name: str
    contract: AnyContract
    health: TableHealth
    score: Score

    @property
    def concerns(self) -> list[Concern]:
        return concerns(self.health, self.contract.maintenance)


def inspect(name: str, contract: AnyContract, now: datetime) -> Inspected | None:
    """Measure a table and keep the result; None where the table is not there yet."""
    found = table(name)
    if found is None:
        return None
    measured = health(found, contract.maintenance.target_bytes)
    judged = score(measured, contract.maintenance, contract.retention, now)
    one = Inspected(name, contract, measured, judged)
    kept.record(name, measured, judged, one.concerns)
    return one


def inspect_all(contracts: Iterable[AnyContract], now: datetime) -> Iterator[Inspected]:
    """Every table of these datasets that is there, companions too."""
    for contract in contracts:
        for name in contract.tables:
            if found := inspect(name, contract, now):
                yield found


def owner(name: str, contracts: Iterable[AnyContract]) -> AnyContract:
    """The contract that a table, or one of its companions, is made from."""
    known = {one: contract for contract in contracts for one in contract.tables}
    if name not in known:
        raise NoSuchTable(f"no contract has a table '{name}'; `lakehouse health` shows those there are")
    return known[name]
