"""Landing files that are past their time: which of their versions may go, and why others stay. Touches nothing.

A version goes when bronze has its bytes, published so long ago, and so has everybody else who may read the file. What
is current goes last, and only where no older version would come in its place: the next run would take that for a
correction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from pyiceberg.table import Table

from lakehouse import landing_versions
from lakehouse.batch import Batch
from lakehouse.catalog import coverage, history, ref_snapshot, table
from lakehouse.contracts.load import Loaded, loaded
from lakehouse.contracts.model import AnyContract, Bronze
from lakehouse.contracts.places import may_share
from lakehouse.landing import hidden
from lakehouse.landing_bucket import key_of, place
from lakehouse.landing_versions import Version
from lakehouse.ledger import batches, landing_gone
from lakehouse.ledger.landing_gone import Due

MOST_FILES = 10_000  # in one window
_FOLDERS_AT_ONCE = 8

UNREADABLE = "a contract has a mistake, and may be one that reads them: `lakehouse contracts check` shows it"
UNCONFIRMED = "the publish of a batch is not confirmed; the next run settles it"
NO_VERSIONS = (
    "the landing bucket keeps no versions, and a correction that comes at that moment would go with them; switch "
    "versioning on, as `lakehouse store setup` does"
)
NOT_HELD = "main does not hold the batch that took them"
NO_DATA = "by their names they are no data"
BENEATH = "an older version that was never taken would come in their place; delete that version"
NOT_IN_FORCE = "landing has them with other bytes than were taken last; run their intervals again"

Taken = Mapping[str, Sequence[str]]  # by file, the ETags that published batches took, that in force first


@dataclass(frozen=True)
class Leaving:
    """A version that may go; None where the file has gone by other hands."""

    file: Due
    version: Version | None


@dataclass(frozen=True)
class Clearing:
    """What is past its time in a dataset's landing folders."""

    leaving: tuple[Leaving, ...] = ()
    staying: Counter[str] = field(default_factory=Counter)  # how many files, by why
    later: int = 0  # more than are looked at in one window

    @property
    def there(self) -> list[Version]:
        """The versions that go."""
        return [one.version for one in self.leaving if one.version]


def clearing(contract: Bronze, before: datetime, limit: int = MOST_FILES) -> Clearing:
    """What was taken before then and may go now, those that were taken first before others."""
    files, known = landing_gone.due(contract.dataset, f"s3://{place('')}", before, MOST_FILES)
    if not files:
        return Clearing()
    everything = loaded()
    if why := _refusal(contract, everything):
        return Clearing(staying=Counter({why: known}))
    uris = {file.uri for file in files}
    others = sharing(contract, everything)
    taken = {name: batches.taken(name, uris) for name in (contract.dataset, *(one.dataset for one in others))}
    kept = _kept(contract, files, others, taken)
    free = [file for file in files if file not in kept]
    leaving, staying = _looked_at(contract, free, list(taken.values()), limit)
    return Clearing(tuple(leaving[:limit]), Counter(kept.values()) + staying, known - len(files))


def sharing(contract: Bronze, everything: Loaded) -> list[Bronze]:
    """The other datasets that may read the same files."""
    path = contract.source.path
    known = [one for one in everything.contracts.values() if isinstance(one, Bronze)]
    return [one for one in known if one.dataset != contract.dataset and may_share(path, one.source.path)]


def shared_with(contract: AnyContract) -> list[str]:
    """Whose leases it takes as well: nobody who reads the same files is undone while they go."""
    return [one.dataset for one in sharing(contract, loaded())] if isinstance(contract, Bronze) else []


def _refusal(contract: Bronze, everything: Loaded) -> str:
    """Why nothing may go at all."""
    if everything.problems:
        return UNREADABLE
    if batches.unsettled(contract.dataset):
        return UNCONFIRMED
    return "" if landing_versions.are_kept() else NO_VERSIONS


def _kept(
    contract: Bronze, files: Sequence[Due], others: Sequence[Bronze], taken: Mapping[str, Taken]
) -> dict[Due, str]:
    """Why files stay, by what is known without a look at the bucket."""
    found = table(contract.dataset)
    held = held_by(found, batches.by_id({file.batch_id for file in files})) if found else set()
    signals = {one.source.ready.signal for one in (contract, *others)} - {""}
    kept: dict[Due, str] = {}
    for file in files:
        key = key_of(file.uri)
        name = key.removeprefix(contract.landing_prefix(file.interval.start))
        if hidden(name) or any(f"/{key}".endswith(f"/{signal}") for signal in signals):
            kept[file] = NO_DATA
        elif file.batch_id not in held:
            kept[file] = NOT_HELD
        elif lacks := next((name for name in taken if file.etag not in taken[name].get(file.uri, ())), None):
            kept[file] = f"{lacks} may read them, and has not taken them"
    return kept


def held_by(found: Table, known: Collection[Batch]) -> set[str]:
    """Which of these batches main holds: their interval, and their version as far as main's history reaches back."""
    line, covered = history(found, ref_snapshot(found)), coverage(found)
    reaches = min((one.timestamp_ms for one in line), default=0)
    beside = {one.snapshot_id for one in found.metadata.snapshots if one.timestamp_ms >= reaches}
    beside -= {one.snapshot_id for one in line}
    strange = {one.batch_id for one in known for write in one.writes if write.head in beside}
    return {one.batch_id for one in known if one.interval in covered} - strange


def _looked_at(
    contract: Bronze, files: Sequence[Due], taken: Sequence[Taken], limit: int
) -> tuple[list[Leaving], Counter[str]]:
    """Folder by folder, until there is enough: what may go, and why the rest of these stays."""
    leaving: list[Leaving] = []
    staying: Counter[str] = Counter()
    folders = list(_folders(contract, files).items())
    with ThreadPoolExecutor(_FOLDERS_AT_ONCE) as pool:
        while folders and len(leaving) < limit:
            some, folders = folders[:_FOLDERS_AT_ONCE], folders[_FOLDERS_AT_ONCE:]
            listed = pool.map(landing_versions.versions, [prefix for prefix, _ in some])
            for (_, mine), versions in zip(some, listed, strict=True):
                for going, why in _each(mine, versions, taken):
                    leaving += going
                    staying.update([why] if why else [])
    return leaving, staying


def _folders(contract: Bronze, files: Sequence[Due]) -> dict[str, list[Due]]:
    """The files by where to list them: their interval's folder, or their own where that is elsewhere by now."""
    found: dict[str, list[Due]] = {}
    for file in files:
        key, prefix = key_of(file.uri), contract.landing_prefix(file.interval.start)
        own = key[: key.rfind("/") + 1] or key
        found.setdefault(prefix if key.startswith(prefix) else own, []).append(file)
    return found


def _each(
    files: Sequence[Due], versions: Sequence[Version], taken: Sequence[Taken]
) -> Iterator[tuple[list[Leaving], str]]:
    by_key: dict[str, list[Version]] = {}
    for version in versions:
        by_key.setdefault(version.key, []).append(version)
    by_uri: dict[str, list[Due]] = {}
    for file in files:
        by_uri.setdefault(file.uri, []).append(file)
    for uri, mine in by_uri.items():
        yield parting(mine, by_key.get(key_of(uri), []), {tuple(one.get(uri, ()))[:1] for one in taken})


def parting(
    files: Sequence[Due], versions: Sequence[Version], force: set[tuple[str, ...]]
) -> tuple[list[Leaving], str]:
    """Which versions of one file may go, that which is current last, and why that one stays.

    `files` is what was taken of it and is due, `force` what each reader holds for its content now.
    """
    due = {(one.etag, one.bytes): one for one in files}
    there = {one.etag for one in versions}
    going = [Leaving(one, None) for one in files if one.etag not in there]
    old = [one for one in versions if not one.current]
    going += [Leaving(due[one.etag, one.bytes], one) for one in old if (one.etag, one.bytes) in due]
    current = next((one for one in versions if one.current), None)
    if current is None or (current.etag, current.bytes) not in due:
        return going, ""
    if force != {(current.etag,)}:
        return going, NOT_IN_FORCE
    if any((one.etag, one.bytes) not in due for one in old):
        return going, BENEATH
    return [*going, Leaving(due[current.etag, current.bytes], current)], ""
