"""Landing folders with files that are past their time: which versions of these may go. Touches nothing.

What is current goes last, and only where no older version would come in its place: the next run would take that for a
correction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from math import inf

from lakehouse import landing_versions
from lakehouse.contracts.model import Bronze
from lakehouse.landing_bucket import key_of
from lakehouse.landing_versions import Patience, Version
from lakehouse.ledger import taken_files
from lakehouse.ledger.landing_gone import Due
from lakehouse.ledger.taken_files import Took
from lakehouse.store import StoreUnreachable
from lakehouse.wording import first_sentence

_FOLDERS_AT_ONCE = 8
BENEATH = "an older version that was never taken would come in their place; delete that version"
NOT_IN_FORCE = "landing has them with other bytes than were taken last; run their intervals again"


@dataclass(frozen=True)
class Leaving:
    """A version that may go; None where the file has gone by other hands."""

    file: Due
    version: Version | None


def looked_at(
    contract: Bronze, files: Sequence[Due], limit: int, patience: Patience
) -> tuple[list[Leaving], Counter[str], bool]:
    """Folder by folder, until there is enough: what may go, why others stay, and whether folders are left."""
    leaving: list[Leaving] = []
    staying: Counter[str] = Counter()
    taken = taken_files.taken(contract.dataset, {file.uri for file in files})
    folders = list(_folders(contract, files).items())
    with ThreadPoolExecutor(_FOLDERS_AT_ONCE) as pool:
        while folders and len(leaving) < limit:
            some, folders = folders[:_FOLDERS_AT_ONCE], folders[_FOLDERS_AT_ONCE:]
            listed = pool.map(lambda one: _listed(one[0], patience), some)
            for (_, mine), versions in zip(some, listed, strict=True):
                if isinstance(versions, str):
                    staying[versions] += len({one.uri for one in mine})
                    continue
                for going, why in _each(mine, versions, taken):
                    leaving += going
                    staying.update([why] if why else [])
    return leaving, staying, bool(folders)


def whole_files(leaving: Sequence[Leaving], most: int, room: float = inf) -> Iterator[list[Leaving]]:
    """So many versions at a time, and so many bytes; but all of a file's go together, and at least one file's."""
    mine: list[Leaving] = []
    left = room
    for _, group in groupby(leaving, lambda one: one.file.uri):
        file = list(group)
        size = sum(one.file.bytes for one in file)
        if mine and (len(mine) + len(file) > most or size > left):
            yield mine
            mine, left = [], room
        mine += file
        left -= size
    if mine:
        yield mine


def _listed(folder: str, patience: Patience) -> list[Version] | str:
    """The versions there, or why they are not known: one folder must not keep others from their turn."""
    if patience.lost:
        return first_sentence(patience.lost)
    try:
        found = landing_versions.versions(folder)
    except StoreUnreachable as error:
        patience.saw(error)
        return first_sentence(error)
    patience.saw(None)
    return found


def folder_of(contract: Bronze, file: Due) -> str:
    """Where a file is: its interval's folder, or its own where that is elsewhere by now."""
    key, prefix = key_of(file.uri), contract.landing_prefix(file.interval.start)
    return prefix if key.startswith(prefix) else key[: key.rfind("/") + 1]


def _folders(contract: Bronze, files: Sequence[Due]) -> dict[str, list[Due]]:
    found: dict[str, list[Due]] = {}
    for file in files:
        found.setdefault(folder_of(contract, file), []).append(file)
    return found


def _each(
    files: Sequence[Due], versions: Sequence[Version], taken: Mapping[str, Sequence[Took]]
) -> Iterator[tuple[list[Leaving], str]]:
    by_key: dict[str, list[Version]] = {}
    for version in versions:
        by_key.setdefault(version.key, []).append(version)
    by_uri: dict[str, list[Due]] = {}
    for file in files:
        by_uri.setdefault(file.uri, []).append(file)
    for uri, mine in by_uri.items():
        yield parting(mine, by_key.get(key_of(uri), []), taken.get(uri, ()))


def parting(files: Sequence[Due], versions: Sequence[Version], taken: Sequence[Took]) -> tuple[list[Leaving], str]:
    """Which versions of one file may go, that which is current last, and why that one stays.

    `files` is what was taken of it and is due, `taken` all that was ever taken of it, that in force first. Older
    versions with the bytes of the current one stay as long as it does: bytes that are noted as gone are nowhere.
    """
    due = {(one.etag, one.bytes): one for one in files}
    there = {one.etag for one in versions}
    going = [Leaving(one, None) for one in files if one.etag not in there]
    old = [one for one in versions if not one.current]
    current = next((one for one in versions if one.current), None)
    others = [one for one in old if current is None or (one.etag, one.bytes) != (current.etag, current.bytes)]
    going += [Leaving(due[one.etag, one.bytes], one) for one in others if (one.etag, one.bytes) in due]
    if current is None or (current.etag, current.bytes) not in due:
        return going, ""
    if [one.etag for one in taken[:1]] != [current.etag]:
        return going, NOT_IN_FORCE
    mine, known = due[current.etag, current.bytes], {(one.etag, one.bytes): one for one in reversed(taken)}
    beneath = [one for one in old if (one.etag, one.bytes) not in due]
    if any((one.etag, one.bytes) not in known for one in beneath):
        return going, BENEATH
    along = [(known[one.etag, one.bytes], one) for one in beneath]
    going += [Leaving(mine._replace(**took._asdict()), one) for took, one in along]
    alike = [one for one in old if one not in others]
    return [*going, *(Leaving(mine, one) for one in (*alike, current))], ""
