"""Gates: what a version of a table must be like before anybody reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from lakehouse.contracts.bounds import Value, read_bound
from lakehouse.contracts.fields import Bound, DatasetName, Duration, Name, Strict, editor
from lakehouse.contracts.shares import Share
from lakehouse.naming import digest

_TRAILING = re.compile(r"trailing_([1-9]\d{0,2})_intervals")
_COLUMN_OF = re.compile(r"(bronze|silver|gold)\.[a-z][a-z0-9_]*\.[a-z_][a-z0-9_]*")
_NUMBERS = ("int", "bigint", "double", "decimal")
TRAILING = 7
# With fewer intervals than these nobody knows what is usual.
LEAST_HISTORY = 3


def _trailing(value: Any) -> Any:
    match = _TRAILING.fullmatch(value) if isinstance(value, str) else None
    if not match or int(match[1]) < LEAST_HISTORY:
        raise ValueError(
            f"'{value}' is no history; write trailing_7_intervals, or another number from {LEAST_HISTORY} on"
        )
    return int(match[1])


def _column_of(value: str) -> str:
    if not _COLUMN_OF.fullmatch(value):
        raise ValueError(f"'{value}' is no column of a dataset; write <layer>.<name>.<column>")
    return value


Trailing = Annotated[
    int,
    BeforeValidator(_trailing),
    PlainSerializer(lambda count: f"trailing_{count}_intervals", return_type=str),
    editor("history", _TRAILING),
]
ColumnOf = Annotated[str, AfterValidator(_column_of), editor("column of a dataset", _COLUMN_OF)]


class RowCount(Strict):
    """How many rows there must be: a number, of the whole table, or a share of what intervals usually bring."""

    at_least: int | Share = Field("90%", validate_default=True, description="Rows, such as 1000; or a share.")
    of: Trailing | None = Field(
        None,
        description=f"With a share: the intervals before, {TRAILING} unless said. Their median is what is expected: "
        "of accepted records in bronze and silver, of the table's rows in gold.",
    )

    @model_validator(mode="after")
    def _history_for_shares(self) -> RowCount:
        if self.of and isinstance(self.at_least, int):
            raise ValueError("of goes with a share, such as at_least: 90%; remove of")
        return self


class Nulls(Strict):
    """How many rows may lack a value."""

    column: str = Field(description="The column.")
    at_most: Share = Field(description="Largest share of the table's rows without a value.")


class Accepted(Strict):
    """The only values that a column may hold."""

    column: str = Field(description="The column.")
    values: tuple[str, ...] = Field(min_length=1, description="The values, as texts.")


class Between(Strict):
    """The range that a column's values must lie in."""

    column: str = Field(description="The column: of numbers, dates or times.")
    lowest: Bound | None = Field(None, description="Lowest value allowed.")
    highest: Bound | None = Field(None, description="Highest value allowed.")

    @model_validator(mode="after")
    def _one_end(self) -> Between:
        if self.lowest is None and self.highest is None:
            raise ValueError("give lowest, highest or both")
        return self

    def ends(self, kind: str) -> tuple[Value | None, Value | None]:
        """Both ends as values of the column's type."""
        low, high = (None if end is None else read_bound(end, kind) for end in (self.lowest, self.highest))
        return low, high


class References(Strict):
    """Every value must be there in another dataset."""

    column: str = Field(description="The column; rows without a value refer to nothing.")
    to: ColumnOf = Field(description="<layer>.<name>.<column>, as that dataset's main is at the audit.")


class Quantile(Strict):
    """A quantile of what the batch wrote must stay near what it was before."""

    column: str = Field(description="The column: of numbers.")
    at: Share = Field("50%", validate_default=True, description="Which quantile; 50% is the median.")
    within: Share = Field(
        "25%", validate_default=True, description="How far it may lie outside the lowest and highest of the history."
    )
    of: Trailing = Field("trailing_7_intervals", validate_default=True, description="The intervals before.")


class Fresh(Strict):
    """Another dataset must be up to date."""

    input: DatasetName = Field(description="The dataset: one that the rows refer to, or an input.")
    within: Duration = Field(description="It may lack at most this much before the interval's end.")


class Sum(Strict):
    """A total must be the same as in the layer below."""

    column: str = Field(description="The column: of numbers.")
    equals: ColumnOf = Field(description="<layer>.<name>.<column> of one of the inputs, as the batch read it.")
    where: str = Field("", description="SQL condition on the input's rows that count.")
    tolerance: float = Field(0, ge=0, description="Largest difference allowed.")


class Gate(Strict):
    """One check of a written version before it is published. Exactly one kind is given."""

    unique: tuple[str, ...] | None = Field(None, min_length=1, description="Columns whose combination must not repeat.")
    row_count: RowCount | None = Field(None, description="How many rows there must be.")
    nulls: Nulls | None = Field(None, description="How many rows may lack a value.")
    accepted: Accepted | None = Field(None, description="The only values that a column may hold.")
    between: Between | None = Field(None, description="The range that a column's values must lie in.")
    references: References | None = Field(None, description="Every value must be there in another dataset.")
    quantile: Quantile | None = Field(None, description="A quantile must stay near what it was.")
    fresh: Fresh | None = Field(None, description="Another dataset must be up to date.")
    sum: Sum | None = Field(None, description="A total must be the same as in the layer below.")
    sql: str | None = Field(
        None, description="A query that must return no rows, over the view `head` and the inputs as <layer>_<name>."
    )
    name: Name | None = Field(None, description="What it is called in results; needed where two would have the same.")
    severity: Literal["error", "warn"] = Field("error", description="error: the batch fails; warn: it is told.")

    @model_validator(mode="after")
    def _one_kind(self) -> Gate:
        if len(self._kinds()) != 1:
            raise ValueError(f"a gate has exactly one of {', '.join(KINDS)}")
        return self

    def _kinds(self) -> list[str]:
        return [kind for kind in KINDS if getattr(self, kind) is not None]

    @property
    def kind(self) -> str:
        (kind,) = self._kinds()
        return kind

    @property
    def title(self) -> str:
        """What the gate is called in results."""
        if self.name:
            return self.name
        if self.unique:
            return f"unique({', '.join(self.unique)})"
        if self.quantile:
            return f"quantile({self.quantile.column}, {self.quantile.at * 100:g}%)"
        about = self.column or (self.fresh.input if self.fresh else "")
        return f"{self.kind}({about})" if about else self.kind

    @property
    def definition(self) -> str:
        """The same for gates that ask the same, whatever they are called and however serious they are."""
        return digest(self.model_dump(mode="json", include={self.kind}))

    @property
    def column(self) -> str:
        """The one column that it is about, if there is one."""
        return str(getattr(getattr(self, self.kind), "column", ""))


KINDS = tuple(kind for kind in Gate.model_fields if kind not in ("name", "severity"))
LAYER_CHECKS = ("balance", "batch_is_whole")
_OF_NUMBERS = ("quantile", "sum")
_OF_ORDERED = (*_NUMBERS, "date", "timestamp")


def faults(gates: tuple[Gate, ...], columns: Mapping[str, str], inputs: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """What is wrong with a contract's gates, as (field, message). Columns come with their types."""
    titles = [gate.title for gate in gates]
    for position, gate in enumerate(gates):
        field = f"gates[{position}]"
        if gate.name in LAYER_CHECKS:
            yield f"{field}.name", f"'{gate.name}' is what a check of the layer is called; choose another"
        if gate.title in titles[:position]:
            yield f"{field}.name", f"is missing: another gate is called '{gate.title}', too"
        if gate.column in columns:
            yield from _faults_of_type(f"{field}.{gate.kind}", gate, columns[gate.column])
        dataset = gate.sum.equals.rpartition(".")[0] if gate.sum else None
        if dataset and dataset not in inputs:
            told = f"'{dataset}' is not one of the inputs: {', '.join(inputs) or 'there are none'}"
            yield f"{field}.sum.equals", told


def named_columns(gate: Gate) -> tuple[str, tuple[str, ...]]:
    """The field of a gate that names columns, and those it names."""
    if gate.unique:
        return "unique", gate.unique
    return f"{gate.kind}.column", (gate.column,) if gate.column else ()


def elsewhere(gate: Gate) -> tuple[str, str, str | None] | None:
    """The field of a gate that names another dataset, that dataset, and the column of it if one is named."""
    if gate.fresh:
        return "fresh.input", gate.fresh.input, None
    field, path = ("references.to", gate.references.to) if gate.references else ("sum.equals", "")
    path = gate.sum.equals if gate.sum else path
    dataset, _, column = path.rpartition(".")
    return (field, dataset, column) if dataset else None


def _faults_of_type(field: str, gate: Gate, kind: str) -> Iterator[tuple[str, str]]:
    base = kind.partition("(")[0]
    if gate.kind in _OF_NUMBERS and base not in _NUMBERS:
        yield f"{field}.column", f"'{gate.column}' is {kind}; {gate.kind} is for numbers"
    elif gate.between and base not in _OF_ORDERED:
        yield f"{field}.column", f"'{gate.column}' is {kind}; between is for numbers, dates and times"
    elif gate.between:
        try:
            low, high = gate.between.ends(kind)
        except ValueError as error:
            yield field, str(error)
        else:
            if low is not None and high is not None and low > high:  # type: ignore[operator]
                yield field, f"no value is between {low} and {high}; write the lowest first"
