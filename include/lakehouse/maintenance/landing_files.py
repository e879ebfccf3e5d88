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
from lakehouse.landing_versions import Patience
from lakehouse.ledger import batches, landing_gone, rollbacks
from lakehouse.ledger.landing_gone import Due, Passing, Span
from lakehouse.maintenance.held import held_by
from lakehouse.maintenance.landing_folders import Leaving, looked_at, whole_files
from lakehouse.store import StoreUnreachable
from lakehouse.wording import first_sentence

MOST_FILES = 10_000  # in one window, and in one look at the ledger
MOST_LOOKS = 20

UNREADABLE = "a contract has a mistake, and may be one that reads them: `lakehouse contracts check` shows it"
UNCONFIRMED = "the publish of a batch is not confirmed; the next run settles it"
UNFINISHED = "a rollback was cut short; the next run finishes it"
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
    everything = loaded()
    others = _others(contract, everything)
    passing = Passing(tuple(others), unread=contract.source.archive_after is None)
    staying = _passed_over(contract, span, passing, others)
    files = _due(contract, span, passing)
    if not files:
        return Clearing(staying=staying)
    if why := _refusal(contract, everything):
        return Clearing(staying=staying + Counter({why: _count(files)}), later=len(files) == MOST_FILES)
    leaving: list[Leaving] = []
    main, patience = table(contract.dataset), Patience()
    looks, later = 0, False
    while files and not later:
        kept = _kept(contract, files, main)
        free = [file for file in files if file not in kept]
        going, stuck, later = looked_at(contract, free, limit - len(leaving), patience)
        leaving += going
        staying += Counter(why for _, why in {(file.uri, why) for file, why in kept.items()}) + stuck
        looks, more = looks + 1, len(files) == MOST_FILES
        later = later or (more and (len(leaving) >= limit or looks == MOST_LOOKS))
        files = _due(contract, span, passing, files[-1]) if more and not later else []
    first = next(whole_files(leaving, limit), [])
    return Clearing(tuple(first), staying, later or len(leaving) > len(first))


def _due(contract: Bronze, span: Span, passing: Passing, after: Due | None = None) -> list[Due]:
    return landing_gone.due(contract.dataset, f"s3://{place('')}", span, MOST_FILES, after, passing)


def _count(files: Sequence[Due]) -> int:
    """Of a file several versions may have been taken."""
    return len({file.uri for file in files})


def _others(contract: Bronze, everything: Loaded) -> dict[str, str]:
    """Other datasets by how the addresses of their files begin, whatever this one's path is by now."""
    known = [one for one in everything.contracts.values() if isinstance(one, Bronze)]
    others = [one for one in known if one.dataset != contract.dataset]
    return {f"s3://{place(fixed_part(one.source.path))}": one.dataset for one in others}


def _passed_over(contract: Bronze, span: Span, passing: Passing, others: Mapping[str, str]) -> Counter[str]:
    """How many files stay by what the ledger alone knows; however many, they keep no other from its turn."""
    found: Counter[str] = Counter()
    for under, counted, files in landing_gone.staying(contract.dataset, f"s3://{place('')}", span, passing):
        read = UNREAD if counted else UNCOUNTED
        found[f"{others[under]} may read them, too; give it a folder of its own" if under else read] += files
    return found


def _refusal(contract: Bronze, everything: Loaded) -> str:
    """Why nothing may go at all."""
    if everything.problems:
        return UNREADABLE
    if batches.unsettled(contract.dataset):
        return UNCONFIRMED
    if rollbacks.unfinished(contract.dataset):
        return UNFINISHED
    try:
        return "" if landing_versions.are_kept() else NO_VERSIONS
    except StoreUnreachable as error:
        return first_sentence(error)


def _kept(contract: Bronze, files: Sequence[Due], main: Table | None) -> dict[Due, str]:
    """Why files stay, by what is known without a look at the bucket."""
    held = held_by(main, batches.by_id({file.batch_id for file in files})) if main else set()
    signal = contract.source.ready.signal
    kept: dict[Due, str] = {}
    for file in files:
        key = key_of(file.uri)
        name = key.removeprefix(contract.landing_prefix(file.interval.start))
        if hidden(name) or (signal and f"/{key}".endswith(f"/{signal}")):
            kept[file] = NO_DATA
        elif file.batch_id not in held:
            kept[file] = NOT_HELD
    return kept
