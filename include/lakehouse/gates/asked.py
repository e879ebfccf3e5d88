"""From a contract and a batch to the checks of its audit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median

from lakehouse.batch import Batch, TakenFile
from lakehouse.catalog import coverage, ref_snapshot, table
from lakehouse.contracts.gates import LEAST_HISTORY, TRAILING, Between, Fresh, Gate, Quantile, RowCount
from lakehouse.contracts.model import AnyContract, Bronze, Silver
from lakehouse.contracts.shares import part_of
from lakehouse.errors import LakehouseError
from lakehouse.gates.checks import (
    Broken,
    Check,
    Gap,
    Known,
    Measure,
    Missing,
    NullShare,
    Orphans,
    Outside,
    QuantileOf,
    Repeated,
    Returned,
    Rows,
    Strange,
    Whole,
)
from lakehouse.ledger import batches, gates, taken_files
from lakehouse.naming import digest

_BECAME = ("inserted", "updated", "deleted", "unchanged", "superseded", "duplicate", "quarantined")
# What replayed records bring is no interval's, and not usual.
_OF_INTERVALS = ("row_count", "quantile", "fresh")


def checks(contract: AnyContract, batch: Batch, held: Collection[str], files: Sequence[TakenFile] = ()) -> list[Check]:
    """Every check that the layer asks for, and every gate of the contract.

    `held` are the definitions of gates that the version passed on which the batch was written; `files` are those that
    the batch took.
    """
    asked = [gate for gate in gates_of(contract) if batch.of_interval or gate.kind not in _OF_INTERVALS]
    return [*_of_the_layer(contract, batch), *(_of_gate(contract, gate, batch, held, files) for gate in asked)]


def gates_of(contract: AnyContract) -> list[Gate]:
    """The contract's gates; that a key is unique is one of them, and no mere warning, whatever the contract says."""
    found = list(contract.gates)
    if isinstance(contract, Silver):
        unique = contract.key or (("_interval_start", *contract.duplicate_by) if contract.duplicate_by else ())
        if unique and not any(gate.unique == unique and gate.severity == "error" for gate in found):
            found = [*(gate for gate in found if gate.unique != unique), Gate(unique=unique)]
    return found


def _of_the_layer(contract: AnyContract, batch: Batch) -> Iterator[Check]:
    if isinstance(contract, Bronze):
        yield _none("batch_is_whole", Whole(rows=batch.counts["rows_in"]))
        return
    if isinstance(contract, Silver):
        rows_in, became = batch.counts["rows_in"], sum(batch.counts.get(name, 0) for name in _BECAME)
        says = f"{rows_in} rows in, {became} accounted for"
        yield _none("balance", Known(value=abs(rows_in - became), says=says))
    for name, column in contract.columns.items():
        if column.required:
            yield _none(f"{name}.required", Missing(column=name))
        if column.check:
            yield _none(f"{name}.check", Broken(condition=f"NOT ({column.check})"))


def _none(name: str, measure: Measure) -> Check:
    """A rule of the layer: none of the batch's rows may break it."""
    return Check(gate=name, definition=digest([name, measure.kind]), measure=measure, at_most=0, own=True)


def _of_gate(
    contract: AnyContract, gate: Gate, batch: Batch, held: Collection[str], files: Sequence[TakenFile]
) -> Check:
    given = {"gate": gate.title, "definition": gate.definition, "severity": gate.severity}
    if gate.row_count:
        return Check(**given, **_row_count(contract, gate, gate.row_count, batch, files))
    if gate.quantile:
        return Check(**given, **_quantile(gate, gate.quantile, batch))
    if gate.fresh:
        return Check(**given, **_fresh(gate.fresh, batch))
    if gate.nulls:
        measure: Measure = NullShare(column=gate.nulls.column)
        return Check(**given, measure=measure, at_most=gate.nulls.at_most)
    if gate.sum:
        return Check(**given, measure=_gap(gate, batch), at_least=-gate.sum.tolerance, at_most=gate.sum.tolerance)
    # Rows that were there before can break only what depends on more than themselves.
    own = gate.kind in ("unique", "accepted", "between") and gate.definition in held
    return Check(**given, measure=_counted(contract, gate), at_most=0, own=own)


def _counted(contract: AnyContract, gate: Gate) -> Measure:
    """The gates that count what must not be there."""
    if gate.unique:
        return Repeated(columns=gate.unique)
    if gate.accepted:
        return Strange(column=gate.accepted.column, accepted=gate.accepted.values)
    if gate.between:
        return _outside(contract, gate.between)
    if gate.references:
        dataset, _, column = gate.references.to.rpartition(".")
        there = table(dataset)
        if there is None:
            raise LakehouseError(f"{contract.dataset}: gate {gate.title} needs {dataset}, which is not there yet")
        return Orphans(column=gate.references.column, dataset=dataset, other=column, snapshot=ref_snapshot(there))
    return Returned(sql=gate.sql or "")


def _outside(contract: AnyContract, between: Between) -> Outside:
    kind = contract.column_types[between.column]
    low, high = (None if end is None else str(end) for end in between.ends(kind))
    return Outside(column=between.column, type=kind, lowest=low, highest=high)


def _gap(gate: Gate, batch: Batch) -> Gap:
    assert gate.sum is not None  # noqa: S101
    dataset, _, column = gate.sum.equals.rpartition(".")
    snapshot = batch.inputs.get(dataset)
    return Gap(column=gate.sum.column, dataset=dataset, other=column, where=gate.sum.where, snapshot=snapshot)


def _row_count(
    contract: AnyContract, gate: Gate, asked: RowCount, batch: Batch, files: Sequence[TakenFile]
) -> dict[str, object]:
    if isinstance(asked.at_least, int):
        return {"measure": Rows(), "at_least": asked.at_least}
    count = asked.of or TRAILING
    if contract.layer == "gold":
        before = gates.earlier(batch.dataset, gate.definition, batch.interval, count)
        measure: Measure = Rows()
    else:
        bronze = contract.layer == "bronze"
        outdated = taken_files.outdated_rows(batch.dataset, batch.batch_id, files) if bronze else {}
        before = [float(n) for n in batches.accepted_before(batch.dataset, batch.interval, count, outdated)]
        accepted = _accepted(batch, outdated)
        measure = Known(value=accepted, says=f"{accepted} records")
    if len(before) < LEAST_HISTORY:
        return {"measure": measure, "note": _too_little(before)}
    expected = median(before)
    note = f"{asked.at_least:.0%} of {expected:g}, the median of {len(before)} intervals"
    return {"measure": measure, "at_least": float(part_of(expected, asked.at_least)), "note": note}


def _accepted(batch: Batch, outdated: Mapping[str, int]) -> int:
    """The records that the interval has brought by now; in bronze the batches of an interval add up."""
    mine = batch.counts.get("rows_in", 0) - batch.counts.get("quarantined", 0)
    if batch.dataset.startswith("bronze."):
        known = [b for b in batches.published_in(batch.dataset, batch.interval) if b.batch_id != batch.batch_id]
        mine += sum(b.counts.get("rows_in", 0) - outdated.get(b.batch_id, 0) for b in known)
    return mine


def _quantile(gate: Gate, asked: Quantile, batch: Batch) -> dict[str, object]:
    measure = QuantileOf(column=asked.column, at=asked.at)
    before = gates.earlier(batch.dataset, gate.definition, batch.interval, asked.of)
    if len(before) < LEAST_HISTORY:
        return {"measure": measure, "own": True, "note": _too_little(before)}
    low, high = min(before), max(before)
    ends = {"at_least": low - asked.within * abs(low), "at_most": high + asked.within * abs(high)}
    return {"measure": measure, "own": True, "note": f"by {len(before)} intervals", **ends}


def _fresh(asked: Fresh, batch: Batch) -> dict[str, object]:
    end = coverage(table(asked.input)).end
    if end is None:
        raise LakehouseError(f"{batch.dataset}: gate fresh({asked.input}): {asked.input} holds no interval yet")
    behind = max(0.0, (batch.interval_end - end).total_seconds())
    known = Known(value=behind, says=f"{asked.input} ends {behind / 3600:g} h before the interval does")
    return {"measure": known, "at_most": asked.within.total_seconds()}


def _too_little(before: list[float]) -> str:
    return f"no bound yet: {len(before)} intervals of history, {LEAST_HISTORY} are needed"
