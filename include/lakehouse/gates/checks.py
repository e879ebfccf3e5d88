"""A check: a number to find in a written version, and the bounds that it must lie in."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    # NaN stays NaN on its way through a document; as null it would mean that there was nothing to measure.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Known(Document):
    """A number that is known without looking at the table."""

    kind: Literal["known"] = "known"
    value: float
    says: str

    def as_text(self, value: float) -> str:  # noqa: ARG002
        return self.says


class Rows(Document):
    """The table's rows."""

    kind: Literal["rows"] = "rows"

    def as_text(self, value: float) -> str:
        return f"{_number(value)} rows"


class Whole(Document):
    """Bronze: records of the batch that are missing, or there more than once."""

    kind: Literal["whole"] = "whole"
    rows: int

    def as_text(self, value: float) -> str:
        return f"of {self.rows} records written, {_number(value)} are missing or there twice"


class NullShare(Document):
    """The share of rows without a value."""

    kind: Literal["null_share"] = "null_share"
    column: str

    def as_text(self, value: float) -> str:
        return f"{value:.2%} of the rows lack {self.column}"


class Missing(Document):
    """Rows without a value."""

    kind: Literal["missing"] = "missing"
    column: str

    def as_text(self, value: float) -> str:
        return f"{_number(value)} rows lack {self.column}"


class Outside(Document):
    """Rows whose value lies outside a range; both ends as texts of the column's type."""

    kind: Literal["outside"] = "outside"
    column: str
    type: str
    lowest: str | None
    highest: str | None

    def as_text(self, value: float) -> str:
        return f"{_number(value)} rows have a {self.column} outside {self.lowest or '…'} to {self.highest or '…'}"


class Broken(Document):
    """Rows for which an SQL condition holds."""

    kind: Literal["broken"] = "broken"
    condition: str

    def as_text(self, value: float) -> str:
        return f"{_number(value)} rows break it"


class Strange(Document):
    """Rows whose value is none of those accepted."""

    kind: Literal["strange"] = "strange"
    column: str
    accepted: tuple[str, ...]

    def as_text(self, value: float) -> str:
        return f"{_number(value)} rows have another {self.column}"


class Repeated(Document):
    """Combinations of values that occur more than once."""

    kind: Literal["repeated"] = "repeated"
    columns: tuple[str, ...]

    def as_text(self, value: float) -> str:
        return f"{_number(value)} values occur more than once"


class Orphans(Document):
    """Values that another dataset, at the pinned version, does not have."""

    kind: Literal["orphans"] = "orphans"
    column: str
    dataset: str
    other: str
    snapshot: int | None

    def as_text(self, value: float) -> str:
        return f"{_number(value)} values of {self.column} are not in {self.dataset}.{self.other}"


class QuantileOf(Document):
    """A quantile of a column."""

    kind: Literal["quantile"] = "quantile"
    column: str
    at: float

    def as_text(self, value: float) -> str:
        return f"the {self.at * 100:g}% quantile of {self.column} is {_number(value)}"


class Gap(Document):
    """How far a column's sum lies from that of an input's column, at the pinned version."""

    kind: Literal["gap"] = "gap"
    column: str
    dataset: str
    other: str
    where: str
    snapshot: int | None

    def as_text(self, value: float) -> str:
        return f"the sum of {self.column} differs from that of {self.dataset}.{self.other} by {_number(value)}"


class Returned(Document):
    """Rows that a query returns."""

    kind: Literal["returned"] = "returned"
    sql: str

    def as_text(self, value: float) -> str:
        return f"the query returns {_number(value)} rows"


Measure = Annotated[
    Known
    | Rows
    | Whole
    | NullShare
    | Missing
    | Outside
    | Broken
    | Strange
    | Repeated
    | Orphans
    | QuantileOf
    | Gap
    | Returned,
    Field(discriminator="kind"),
]


class Found(Document):
    """What was measured for one check; rows that break it, as JSON texts, for a look."""

    gate: str
    value: float | None = Field(description="None where there was no row to look at.")
    sample: tuple[str, ...] = ()


class GateResult(Document):
    """A gate's verdict on a version."""

    gate: str
    definition: str
    verdict: Literal["passed", "failed", "warned"]
    value: float | None
    bound: str
    found: str
    sample: tuple[str, ...] = ()


class Check(Document):
    """One number, and its bounds. `own` looks at the batch's rows alone: those before it were looked at before."""

    gate: str
    definition: str
    measure: Measure
    severity: Literal["error", "warn"] = "error"
    at_least: float | None = None
    at_most: float | None = None
    own: bool = False
    note: str = ""

    def judged(self, found: Found) -> GateResult:
        """The verdict. Without a row to look at there is nothing wrong."""
        right = found.value is None or self.holds(found.value)
        wrong: Literal["failed", "warned"] = "failed" if self.severity == "error" else "warned"
        text = self.measure.as_text(found.value) if found.value is not None else "there are no rows to look at"
        text += f", {self.bound} wanted" if self.bound not in ("", "at most 0") else ""
        return GateResult(
            gate=self.gate,
            definition=self.definition,
            verdict="passed" if right else wrong,
            value=found.value,
            bound=self.bound,
            found=text + (f" ({self.note})" if self.note else ""),
            sample=found.sample,
        )

    def holds(self, value: float) -> bool:
        # A difference or a quantile that is no number is never right.
        low = self.at_least is None or value >= self.at_least
        high = self.at_most is None or value <= self.at_most
        return low and high and not math.isnan(value)

    @property
    def bound(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            return f"{_number(self.at_least)} to {_number(self.at_most)}"
        if self.at_least is not None:
            return f"at least {_number(self.at_least)}"
        return f"at most {_number(self.at_most)}" if self.at_most is not None else ""


def _number(value: float) -> str:
    """Whole numbers in full; others as short as they can be told apart."""
    return str(int(value)) if float(value).is_integer() else f"{value:.6g}"


def known(check: Check) -> Found | None:
    """What needs no look at the table."""
    measure: Any = check.measure
    return Found(gate=check.gate, value=measure.value) if isinstance(measure, Known) else None
