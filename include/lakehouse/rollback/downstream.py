"""What was built from what a rollback undoes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakehouse.batch import Batch
from lakehouse.catalog import history, ref_snapshot
from lakehouse.contracts.model import AnyContract
from lakehouse.intervals import Interval
from lakehouse.ledger import batches
from lakehouse.ledger.rollbacks import Rollback
from lakehouse.rollback.planned import written
from lakehouse.versions import existing


@dataclass(frozen=True)
class Downstream:
    """Intervals of another dataset that were built from what is undone, and its version before the first of them."""

    contract: AnyContract
    intervals: tuple[Interval, ...]
    before: int | None


def downstream(rollback: Rollback, contracts: Iterable[AnyContract]) -> list[Downstream]:
    """The datasets that were built from what is undone, and those built from them."""
    known = {contract.dataset: contract for contract in contracts}
    own = rollback.moves[-1]
    table = existing(rollback.dataset)
    kept = {one.snapshot_id for one in history(table, own.after)}
    tainted = {rollback.dataset: {one.snapshot_id for one in history(table, own.before)} - kept}
    found: dict[str, list[Batch]] = {}
    pending = [rollback.dataset]
    while pending:
        source = pending.pop(0)
        for contract in known.values():
            built = _built_from(contract, source, tainted[source]) if source in contract.inputs else []
            fresh = [batch for batch in built if batch not in found.get(contract.dataset, [])]
            if fresh:
                found.setdefault(contract.dataset, []).extend(fresh)
                tainted[contract.dataset] = _since(contract.dataset, found[contract.dataset])
                pending.append(contract.dataset)
    return [_downstream(known[name], built) for name, built in found.items()]


def _downstream(contract: AnyContract, built: Sequence[Batch]) -> Downstream:
    oldest_first = list(reversed(built))
    before = next((write.base for batch in oldest_first if (write := written(batch, contract.dataset))), None)
    return Downstream(contract, tuple(sorted({batch.interval for batch in built if batch.of_interval})), before)


def _built_from(contract: AnyContract, source: str, snapshots: set[int]) -> list[Batch]:
    return [batch for batch in batches.published(contract.dataset) if batch.inputs.get(source) in snapshots]


def _since(dataset: str, built: Sequence[Batch]) -> set[int]:
    """Main's versions from the first of these batches on; compacted ones, too."""
    found = existing(dataset)
    line = [one.snapshot_id for one in history(found, ref_snapshot(found))]
    heads = [line.index(w.head) for batch in built if (w := written(batch, dataset)) and w.head in line]
    return set(line[: max(heads) + 1]) if heads else set()
