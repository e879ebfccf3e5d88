"""What is wrong across a contract's fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, time
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lakehouse.contracts.fields import Column, partition_column
from lakehouse.contracts.gates import faults as faults_of_gates
from lakehouse.contracts.gates import named_columns
from lakehouse.contracts.paths import names, steps
from lakehouse.contracts.places import faults_of_path, telling_moments
from lakehouse.contracts.steady import unsteady
from lakehouse.errors import suggest
from lakehouse.naming import ARCHIVE, CLEARED, layer_of

if TYPE_CHECKING:
    from lakehouse.contracts.model import Bronze, Contract, Gold, Silver

# What SQL in a contract may use of the record's arrival; rules are checked again where only lineage is left.
_FOR_EXPRESSIONS = ("_source_file", "_ingestion_date", "_ingested_at")
_FOR_RULES = ("_source_file", "_source_offset")
# By what a silver dataset's intervals deliver: the fields it needs, and those that would mean nothing.
_DELIVERIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "changes": (("key", "newest_by"), ("duplicate_by",)),
    "snapshot": (("key",), ("newest_by", "duplicate_by", "delete_when", "late_data")),
    "events": ((), ("key", "delete_when", "change_feed")),
}
Fault = tuple[str, str]  # the field, and the message


class Faults(ValueError):
    """What is wrong across a contract's fields: all of it, as (field, message)."""

    def __init__(self, found: Iterable[Fault]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(f"{field}: {message}" for field, message in self.found))


def of_contract(contract: Contract) -> Iterator[Fault]:
    """What may be wrong in any layer."""
    for position, given in enumerate(contract.partition_by):
        column, field = partition_column(given), f"partition_by[{position}]"
        if column is None:
            yield field, f"'{given}' is no partition; write column, day(column) or bucket(16, column)"
        elif column not in contract.column_names:
            yield field, f"no column '{column}'{suggest(column, contract.column_names)}"
    for position, gate in enumerate(contract.gates):
        field, columns = named_columns(gate)
        yield from _unknown(f"gates[{position}].{field}", columns, contract.column_names)
    yield from faults_of_gates(contract.gates, contract.column_types, contract.inputs)
    yield from _unknown("maintenance.sort_by", contract.maintenance.sort_by, contract.column_names)
    if contract.retention.rows and contract.layer != "bronze":
        yield "retention.rows", "rows go from bronze only, where their readers have taken them; remove rows"


def of_bronze(contract: Bronze) -> Iterator[Fault]:
    """What may be wrong in bronze alone: a path that does not tell intervals apart, rows and files that cannot go."""
    if contract.retention.rows and "_ingestion_date" not in contract.partition_by:
        yield "retention.rows", "rows go by _ingestion_date; add it to partition_by"
    moments = telling_moments(datetime.combine(contract.start, time.min, ZoneInfo(contract.timezone)))
    starts = [contract.interval_after(one).start for one in moments]
    yield from faults_of_path(contract.source.path, contract.timezone, starts)
    if contract.source.path.startswith(ARCHIVE):
        yield "source.path", f"{ARCHIVE} is where files go that are past their time; write another folder"
    if contract.source.ready.signal.rpartition("/")[2] == CLEARED:
        yield "source.ready", f"{CLEARED} says that files have gone from a folder; write another name"
    if contract.source.archive_after is not None and contract.source.delete_after is not None:
        yield "source.delete_after", "a file is either archived or deleted; remove delete_after or archive_after"


def of_columns(columns: Mapping[str, Column]) -> Iterator[Fault]:
    """Bounds that no value keeps."""
    for name, column in columns.items():
        yield from _of_bounds(f"columns.{name}.between", column)


def of_silver(contract: Silver) -> Iterator[Fault]:
    """What may be wrong in silver alone."""
    if layer_of(contract.reads) != "bronze":
        yield "reads", f"silver is made from bronze, not from '{contract.reads}'"
    yield from _of_delivery(contract)
    yield from _unknown("key", contract.key, contract.columns)
    # A MERGE never matches a key that is null: it would insert that row again with every batch.
    yield from _optional("key", contract.key, contract.columns)
    yield from _unknown("newest_by", contract.newest_by, (*contract.columns, "_source_offset", "_source_file"))
    yield from _unknown("duplicate_by", contract.duplicate_by, contract.columns)
    # Events without a value would be alike, and all but one of them repeats.
    yield from _optional("duplicate_by", contract.duplicate_by, contract.columns)
    first = contract.columns.get(next(iter(contract.newest_by), ""))
    if contract.late_data and (first is None or first.type != "timestamp"):
        yield "late_data", "needs a timestamp as the first column of newest_by"
    for name, column in contract.columns.items():
        if not column.from_ and not column.expr:
            yield f"columns.{name}.from", f"is missing; write the path in the record, such as after.{name}"
    yield from _of_sql(contract)


def of_gold(contract: Gold) -> Iterator[Fault]:
    """What may be wrong in gold alone."""
    yield from _of_unsteady("sql", contract.sql)
    if len(contract.rebuild) > 1:
        yield "rebuild", "one column at most"
    for own, source in contract.rebuild.items():
        dataset, _, column = source.rpartition(".")
        if own not in contract.columns:
            yield f"rebuild.{own}", f"no column '{own}'{suggest(own, contract.columns)}"
        elif contract.columns[own].type != "date":
            yield f"rebuild.{own}", "must be a date column"
        elif not {own, f"day({own})"} & set(contract.partition_by):
            yield "partition_by", f"must have {own}: days that are built again are replaced as a whole"
        if dataset not in contract.reads or not column:
            yield f"rebuild.{own}", f"'{source}' is not <input>.<column> of one of reads"


def _of_sql(contract: Silver) -> Iterator[Fault]:
    """Names in the contract's SQL that cannot be used."""
    for name, column in contract.columns.items():
        yield from _of_expression(f"columns.{name}.expr", column.expr, _FOR_EXPRESSIONS)
        yield from _of_expression(f"columns.{name}.check", column.check, _FOR_RULES)
    for name, rule in contract.rules.items():
        yield from _of_expression(f"rules.{name}", rule, _FOR_RULES)
    yield from _of_unsteady("delete_when", contract.delete_when)
    for path in names(contract.delete_when):
        try:
            steps(path)
        except ValueError as error:
            yield "delete_when", str(error)


def _of_delivery(contract: Silver) -> Iterator[Fault]:
    """Fields that this kind of delivery needs, and those it has no use for."""
    needed, useless = _DELIVERIES[contract.delivers]
    for name in needed:
        if not getattr(contract, name):
            hint = "; or write delivers: events" if name == "key" else ""
            yield name, f"is missing; name the columns{hint}"
    for name in useless:
        if getattr(contract, name):
            yield name, f"means nothing where delivers is {contract.delivers}; remove it"


def _optional(field: str, names: Iterable[str], columns: Mapping[str, Column]) -> Iterator[Fault]:
    """Columns by which rows are known, and which a record may lack."""
    for position, name in enumerate(names):
        if name in columns and not columns[name].required:
            yield f"{field}[{position}]", f"'{name}' may be missing; add required: true to the column"


def _unknown(field: str, names: Iterable[str], known: Iterable[str]) -> Iterator[Fault]:
    options = list(known)
    for position, name in enumerate(names):
        if name not in options:
            yield f"{field}[{position}]", f"no column '{name}'{suggest(name, options)}"


def _of_bounds(field: str, column: Column) -> Iterator[Fault]:
    try:
        bounds = column.bounds
    except ValueError as error:
        yield field, str(error)
    else:
        if list(bounds) != sorted(bounds):
            yield field, f"no value is between {bounds[0]} and {bounds[1]}; write the lowest first"


def _of_unsteady(field: str, sql: str) -> Iterator[Fault]:
    """Functions by which an interval that runs again would have other rows."""
    for name in unsteady(sql):
        yield field, f"'{name}' says something else each time, and a rerun would change rows; use what the records say"


def _of_expression(field: str, sql: str, allowed: Sequence[str]) -> Iterator[Fault]:
    """What SQL may not use; names that the jobs keep for themselves, too: those of columns begin with a letter."""
    yield from _of_unsteady(field, sql)
    for name in names(sql):
        if any(part.startswith("_") for part in name.split(".")) and name not in allowed:
            yield field, f"'{name}' cannot be used; use columns or {', '.join(allowed)}"
