"""Landing files that are past their time: which of them may go, and why others stay. Touches nothing.

A file goes when a batch took its bytes, published so long ago, and no other dataset may read it. One that could not be
read as a whole is archived, and never deleted: bronze has not all that it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.table import Table

from lakehouse import landing_versions
from lakehouse.catalog import table
from lakehouse.contracts.load import Loaded, loaded
from lakehouse.contracts.model import Bronze
from lakehouse.contracts.places import fixed_part
from lakehouse.landing import hidden
from lakehouse.landing_bucket import key_of, place
from lakehouse.ledger import batches, landing_gone
from lakehouse.ledger.landing_gone import Due, Span
from lakehouse.maintenance.held import held_by
from lakehouse.maintenance.landing_folders import Leaving, looked_at, whole_files
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
UNREAD = "a part of them could not be read, and bronze has not its bytes; correct them, or archive them instead"
UNCOUNTED = "an earlier version took them, and did not count what it could not read; archive them instead"


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
    first = next(whole_files(leaving, limit), [])
    return Clearing(tuple(first), staying, later or len(leaving) > len(first))


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
        elif contract.source.archive_after is None and file.malformed != 0:
            kept[file] = UNREAD if file.malformed else UNCOUNTED
    return kept
