"""Landing files that are past their time: which of them may go, and why others stay. Touches nothing.

A file goes when bronze has its bytes, published so long ago, and no other dataset may read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.table import Table

from lakehouse import landing_versions
from lakehouse.batch import Batch
from lakehouse.catalog import coverage, history, ref_snapshot, table
from lakehouse.contracts.load import Loaded, loaded
from lakehouse.contracts.model import Bronze
from lakehouse.contracts.places import fixed_part
from lakehouse.landing import hidden
from lakehouse.landing_bucket import key_of, place
from lakehouse.ledger import batches, landing_gone
from lakehouse.ledger.landing_gone import Due, Span
from lakehouse.maintenance.landing_folders import Leaving, looked_at
from lakehouse.store import StoreUnreachable
from lakehouse.wording import first_sentence

MOST_FILES = 10_000  # in one window, and in one look at the ledger
MOST_LOOKS = 20

UNREADABLE = "a contract has a mistake, and may be one that reads them: `lakehouse contracts check` shows it"
UNCONFIRMED = "the publish of a batch is not confirmed; the next run settles it"
NO_VERSIONS = (
    "the landing bucket keeps no versions, and a correction that comes at that moment would go with them; switch "
    "versioning on, as `lakehouse store setup` does"
)
NOT_HELD = "main does not hold the batch that took them"
NO_DATA = "by their names they are no data"


@dataclass(frozen=True)
class Clearing:
    """What is past its time in a dataset's landing folders."""

    leaving: tuple[Leaving, ...] = ()
    staying: Counter[str] = field(default_factory=Counter)  # how many files, by why
    later: bool = False  # there may be more than are looked at in one window


def clearing(contract: Bronze, span: Span, limit: int = MOST_FILES) -> Clearing:
    """What was taken in that time and may go now, those that were taken first before others."""
    files, everything = _due(contract, span), loaded()
    if not files:
        return Clearing()
    if why := _refusal(contract, everything):
        return Clearing(staying=Counter({why: len(files)}), later=len(files) == MOST_FILES)
    leaving: list[Leaving] = []
    staying: Counter[str] = Counter()
    main, others = table(contract.dataset), _others(contract, everything)
    looks, later = 0, False
    while files and not later:
        kept = _kept(contract, files, main, others)
        free = [file for file in files if file not in kept]
        going, stuck, later = looked_at(contract, free, limit - len(leaving))
        leaving += going
        staying += Counter(kept.values()) + stuck
        looks, more = looks + 1, len(files) == MOST_FILES
        later = later or (more and (len(leaving) >= limit or looks == MOST_LOOKS))
        files = _due(contract, span, files[-1]) if more and not later else []
    return Clearing(tuple(leaving[:limit]), staying, later or len(leaving) > limit)


def _due(contract: Bronze, span: Span, after: Due | None = None) -> list[Due]:
    return landing_gone.due(contract.dataset, f"s3://{place('')}", span, MOST_FILES, after)


def _others(contract: Bronze, everything: Loaded) -> dict[str, str]:
    """How the names of other datasets' files begin, whatever this one's path is by now."""
    known = [one for one in everything.contracts.values() if isinstance(one, Bronze)]
    return {one.dataset: fixed_part(one.source.path) for one in known if one.dataset != contract.dataset}


def _refusal(contract: Bronze, everything: Loaded) -> str:
    """Why nothing may go at all."""
    if everything.problems:
        return UNREADABLE
    if batches.unsettled(contract.dataset):
        return UNCONFIRMED
    try:
        return "" if landing_versions.are_kept() else NO_VERSIONS
    except StoreUnreachable as error:
        return first_sentence(error)


def _kept(contract: Bronze, files: Sequence[Due], main: Table | None, others: Mapping[str, str]) -> dict[Due, str]:
    """Why files stay, by what is known without a look at the bucket."""
    held = held_by(main, batches.by_id({file.batch_id for file in files})) if main else set()
    signal = contract.source.ready.signal
    kept: dict[Due, str] = {}
    for file in files:
        key = key_of(file.uri)
        name = key.removeprefix(contract.landing_prefix(file.interval.start))
        if other := next((dataset for dataset, prefix in others.items() if key.startswith(prefix)), None):
            kept[file] = f"{other} may read them, too; give it a folder of its own"
        elif hidden(name) or (signal and f"/{key}".endswith(f"/{signal}")):
            kept[file] = NO_DATA
        elif file.batch_id not in held:
            kept[file] = NOT_HELD
    return kept


def held_by(found: Table, known: Collection[Batch]) -> set[str]:
    """Which of these batches main holds: their interval, and their version as far as main's history reaches back."""
    line, covered = history(found, ref_snapshot(found)), coverage(found)
    reaches = min((one.timestamp_ms for one in line), default=0)
    beside = {one.snapshot_id for one in found.metadata.snapshots if one.timestamp_ms >= reaches}
    beside -= {one.snapshot_id for one in line}
    strange = {one.batch_id for one in known for write in one.writes if write.head in beside}
    return {one.batch_id for one in known if one.interval in covered} - strange
