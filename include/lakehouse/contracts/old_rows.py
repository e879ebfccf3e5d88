"""Who can live with it that a dataset's old rows go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakehouse.contracts.gates import Gate, elsewhere
from lakehouse.contracts.model import AnyContract, Silver
from lakehouse.naming import dag_id


def readers_of_what_goes(contract: AnyContract, others: Iterable[AnyContract]) -> Iterator[str]:
    """Why the dataset's rows must stay: somebody who would not know what they lack."""
    for other in others:
        if contract.dataset in other.inputs:
            yield from _as_reader(contract, other)
        if any(_needs_all(contract, other, gate) for gate in other.gates):
            yield f"a gate of {other.dataset} needs all rows of {contract.dataset}; remove the gate, or rows"


def _needs_all(contract: AnyContract, other: AnyContract, gate: Gate) -> bool:
    """Whether a gate counts or looks at rows of the dataset that came long ago; SQL may."""
    if other.dataset == contract.dataset:
        return bool(gate.sql or (gate.row_count and isinstance(gate.row_count.at_least, int)))
    if gate.sql:
        return dag_id(contract.dataset) in gate.sql.lower()
    asked = elsewhere(gate)
    return bool(asked and not gate.fresh and asked[1] == contract.dataset)


def _as_reader(contract: AnyContract, reader: AnyContract) -> Iterator[str]:
    if not isinstance(reader, Silver):
        yield f"{reader.dataset} reads {contract.dataset} as a whole, and would forget old rows; remove rows"
    elif (reader.schedule, reader.timezone) != (contract.schedule, contract.timezone):
        yield (
            f"{reader.dataset} has other intervals, and one of them could lose a part of its records; give both the "
            "same schedule and timezone, or remove rows"
        )
    elif reader.delivers == "changes" and not _by_time(reader):
        yield (
            f"{reader.dataset} cannot tell a record that is newer than all that went; make a timestamp the first of "
            "its newest_by, or remove rows"
        )


def _by_time(reader: Silver) -> bool:
    first = reader.columns.get(next(iter(reader.newest_by), ""))
    return first is not None and first.type == "timestamp"
