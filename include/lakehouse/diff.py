"""What is different between two versions of a table: rows added, removed and changed, by key where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyiceberg.table import Table

from lakehouse.contracts.model import AnyContract, Silver
from lakehouse.gates.asked import gates_of
from lakehouse.query import Version, identifier, run_on

OLD, NEW = "old_version.rows", "new_version.rows"
ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_CONTENT, _COPY = "_lakehouse_content", "_lakehouse_copy"


@dataclass(frozen=True)
class Difference:
    """How many rows differ, and some of them: (what happened, values before or after)."""

    counts: dict[str, int]
    columns: tuple[str, ...]
    sample: list[tuple[Any, ...]]

    @property
    def none(self) -> bool:
        return not any(self.counts.values())


def difference(contract: AnyContract, found: Table, old: int | None, new: int | None, sample: int = 10) -> Difference:
    """Compare two versions by what the dataset says; where its rows came from is no part of that."""
    versions = [Version(OLD, found, old), Version(NEW, found, new)]
    columns = _columns(contract, versions)
    key = [name for name in _key(contract) if name in columns]
    query = _by_key(key, columns) if key else _as_sets(columns)
    counted = run_on(versions, f"SELECT change, count(*) FROM ({query}) GROUP BY change")[1]  # noqa: S608
    counts = {**dict.fromkeys((ADDED, REMOVED, CHANGED) if key else (ADDED, REMOVED), 0), **dict(counted)}
    rows = run_on(versions, f"{query} ORDER BY ALL LIMIT {int(sample)}")[1] if sample and any(counts.values()) else []
    return Difference(counts, columns, rows)


def _columns(contract: AnyContract, versions: list[Version]) -> tuple[str, ...]:
    """The columns that both versions have."""
    both = [{row[0] for row in run_on(versions, f"DESCRIBE {one.name}")[1]} for one in versions]
    return tuple(name for name in contract.column_names if name in both[0] & both[1])


def _key(contract: AnyContract) -> tuple[str, ...]:
    """What tells a row from the others: the key, or what a gate says to be unique."""
    if isinstance(contract, Silver) and contract.key:
        return contract.key
    return next((gate.unique for gate in gates_of(contract) if gate.unique), ())


def _by_key(key: list[str], columns: tuple[str, ...]) -> str:
    """Rows of the same key are told apart by their place among them: one that is there twice is seen, too."""
    names, keys = (", ".join(identifier(c) for c in some) for some in (columns, key))
    before, after = (
        f"SELECT {names}, row({names}) AS {_CONTENT}, "  # noqa: S608
        f"row_number() OVER (PARTITION BY {keys} ORDER BY row({names})) AS {_COPY} FROM {name}"
        for name in (OLD, NEW)
    )
    same = " AND ".join(f"o.{identifier(c)} IS NOT DISTINCT FROM n.{identifier(c)}" for c in key)
    return (
        f"SELECT CASE WHEN o.{_COPY} IS NULL THEN '{ADDED}' WHEN n.{_COPY} IS NULL THEN '{REMOVED}' "  # noqa: S608
        f"ELSE '{CHANGED}' END AS change, {', '.join(map(_as_text, columns))} FROM ({before}) o FULL JOIN ({after}) n "
        f"ON {same} AND o.{_COPY} = n.{_COPY} WHERE o.{_CONTENT} IS DISTINCT FROM n.{_CONTENT}"
    )


def _as_text(column: str) -> str:
    """A value as text; where it changed, before and after."""
    name = identifier(column)
    old, new = (f"coalesce({version}.{name}::VARCHAR, 'NULL')" for version in "on")
    return (
        f"CASE WHEN o.{_COPY} IS NULL THEN {new} WHEN n.{_COPY} IS NULL OR o.{name} IS NOT DISTINCT FROM n.{name} "
        f"THEN {old} ELSE {old} || ' → ' || {new} END AS {name}"
    )


def _as_sets(columns: tuple[str, ...]) -> str:
    content = ", ".join(identifier(c) for c in columns)
    old, new = (f"SELECT {content} FROM {name}" for name in (OLD, NEW))  # noqa: S608
    return (
        f"SELECT '{ADDED}' AS change, * FROM ({new} EXCEPT ALL {old}) "  # noqa: S608
        f"UNION ALL SELECT '{REMOVED}' AS change, * FROM ({old} EXCEPT ALL {new})"
    )
