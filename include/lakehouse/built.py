"""Which days of a gold table have to be built."""

from __future__ import annotations

from datetime import date

from lakehouse.catalog import absorbed, rows_from, table
from lakehouse.changes import changed_days
from lakehouse.contracts.model import Gold

Days = tuple[date, ...] | None


def rebuilt_from(contract: Gold) -> tuple[str, str]:
    """The input, and its column, from whose days the table's own days are built; empty where it does not say."""
    dataset, _, column = next(iter(contract.rebuild.values()), "").rpartition(".")
    return dataset, column


def days_to_build(contract: Gold, snapshots: dict[str, int | None]) -> tuple[Days, date | None]:
    """The days whose input changed since the last build; None: all of them; (): none.

    And the first day that can be built: of earlier ones the input has let rows go, or the table itself. They stay as
    they are.
    """
    kept_from = max(filter(None, map(rows_from, map(table, (contract.dataset, *_source(contract))))), default=None)
    days = _changed(contract, snapshots)
    return (tuple(day for day in days if kept_from is None or day >= kept_from) if days else days), kept_from


def _source(contract: Gold) -> tuple[str, ...]:
    return tuple(filter(None, rebuilt_from(contract)[:1]))


def _changed(contract: Gold, snapshots: dict[str, int | None]) -> Days:
    last = absorbed(table(contract.dataset))
    before = last.get("inputs", {})
    if last.get("contract") == contract.version and before == snapshots:
        return ()
    moved = [name for name, snapshot in snapshots.items() if before.get(name) != snapshot]
    dataset, column = rebuilt_from(contract)
    if last.get("contract") != contract.version or moved != [dataset]:
        return None
    source, snapshot = table(dataset), snapshots[dataset]
    days = changed_days(source, column, before.get(dataset), snapshot) if source and snapshot else None
    return tuple(sorted(days)) if days is not None else None
