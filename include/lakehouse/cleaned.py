"""What a batch of silver is made from, and whether an interval's newest one is made from what bronze holds."""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse import naming
from lakehouse.batch import Batch, Corrections
from lakehouse.contracts.model import Silver
from lakehouse.intervals import Interval


def is_cleaned(
    contract: Silver,
    interval: Interval,
    known: Sequence[Batch],
    mine: Corrections,
    own: Sequence[Batch],
    version: str | None = None,
) -> bool:
    """Whether the newest of the interval's batches is made from just these of its input, under this contract.

    `mine` are the corrections that these brought, `own` the interval's own batches, newest first; `version` is that of
    another contract, if one is meant.
    """
    under, done = version or contract.version, [batch.batch_id for batch in own]
    contents = (cleans(under, known, mine), cleans(under, known, mine, *done[1:2]))
    return bool(done) and done[0] in [
        naming.batch_id(contract.dataset, interval, naming.digest(content)) for content in contents
    ]


def cleans(version: str, known: Sequence[Batch], mine: Corrections, *before: str) -> list[object]:
    """What makes a batch of silver what it is."""
    inherited = [list(mine.inherited)] if mine.inherited else []
    return [version, taken(known), mine.replaced, *inherited, *before]


def taken(known: Sequence[Batch]) -> list[str]:
    """Those of the input's batches that brought records."""
    return sorted(b.batch_id for b in known if b.counts.get("rows_in"))
