"""Clearing landing: files that are past their time are archived or deleted, each noted before it is touched.

Copies are made and looked at first, then folders are marked, then versions that are not current go, then those that
are: whenever it is cut off, nothing comes forth in landing that was not current before. A file for which the store
fails stays, and the others go.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from lakehouse import landing_versions
from lakehouse.contracts.model import Bronze
from lakehouse.errors import LakehouseError
from lakehouse.jobs import Maintained
from lakehouse.landing_bucket import key_of, place
from lakehouse.landing_versions import Patience, Version
from lakehouse.ledger import landing_gone
from lakehouse.ledger.landing_gone import ABSENT, BEGUN, DONE, Gone, Span
from lakehouse.maintenance.landing_files import clearing
from lakehouse.maintenance.landing_folders import Leaving, folder_of
from lakehouse.maintenance.step import Step
from lakehouse.naming import ARCHIVE, CLEARED
from lakehouse.wording import first_sentence

log = logging.getLogger(__name__)
_AT_ONCE = 8
T = TypeVar("T")
R = TypeVar("R")


class Going(NamedTuple):
    """A version that is about to go."""

    row: Gone
    version: Version
    folder: str


@dataclass
class _Tries:
    """What the store did; a file for which it failed is not touched again, nor any version of it."""

    failed: dict[str, str] = field(default_factory=dict)  # by file, why
    patience: Patience = field(default_factory=Patience)

    def each(self, given: Sequence[Going], act: Callable[[Going], None]) -> list[Going]:
        """Those for which it went well."""
        todo = [one for one in given if one.row.uri not in self.failed]
        fared = list(zip(todo, _each(todo, lambda one: _tried(lambda: act(one), self.patience)), strict=True))
        self.failed |= {one.row.uri: came for one, came in fared if isinstance(came, str)}
        return [one for one, came in fared if not isinstance(came, str)]


def clear(contract: Bronze, step: Step, still_ours: Callable[[], None]) -> Maintained:
    """Have files go that may go now, no more than the step says. Call it under the lease."""
    if step.taken_before is None:
        return Maintained(counters={"files": 0})
    # What is begun was tried by an earlier step of this turn.
    span = Span(step.taken_before, step.taken_from, begun=False)
    leaving = clearing(contract, span, step.files).leaving
    still_ours()
    tries = _Tries()
    absent = _absent(contract, [one for one in leaving if one.version is None], tries.patience)
    landing_gone.note(absent)
    going = list(_about_to_go(contract, step, leaving))
    landing_gone.note([one.row for one in going])
    gone = _go(contract, step, going, tries, still_ours)
    left = {_bytes_of(one.row) for one in set(going) - set(gone)}
    landing_gone.note([one.row._replace(state=DONE) for one in gone if _bytes_of(one.row) not in left])
    landing_gone.forget([one.row for one in gone if _bytes_of(one.row) in left])
    files = tuple(dict.fromkeys(one.row.uri for one in gone))
    size, missing = sum(one.row.bytes for one in gone), len({row.uri for row in absent})
    counters = {"files": len(files), "bytes": size, "absent": missing, "failed": len(tries.failed)}
    return Maintained(counters=counters, files=files, failure=next(iter(tries.failed.values()), ""))


def _absent(contract: Bronze, leaving: Sequence[Leaving], patience: Patience) -> list[Gone]:
    """Files that are not there any more; of which the store does not tell, they are as due as before.

    Where the archive has a copy, an earlier turn took the file away, and the ledger was restored since.
    """

    def noted(one: Leaving) -> Gone:
        row = _row(contract.dataset, one, ABSENT, archive=True)
        return row if landing_versions.is_there(key_of(row.archived_to)) else row._replace(archived_to="")

    found = _each(leaving, lambda one: _tried(lambda: noted(one), patience))
    return [row for row in found if isinstance(row, Gone)]


def _about_to_go(contract: Bronze, step: Step, leaving: Sequence[Leaving]) -> Iterator[Going]:
    # A version may be found twice: by its own time, and beneath one that goes.
    for version, one in {one.version: one for one in leaving}.items():
        if version is not None:
            row = _row(contract.dataset, one, BEGUN, archive=step.archive)
            yield Going(row, version, folder_of(contract, one.file))


def _bytes_of(row: Gone) -> tuple[str, str]:
    """What a row is about: several versions may be the same bytes, which are gone when none of them is there."""
    return row.batch_id, row.uri


def _go(
    contract: Bronze, step: Step, going: Sequence[Going], tries: _Tries, still_ours: Callable[[], None]
) -> list[Going]:
    """What went of it."""
    if step.archive:
        tries.each(going, _archive)
    current = [one for one in going if one.version.current]
    since = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    _mark(current, json.dumps({"dataset": contract.dataset, "since": since}), tries)
    still_ours()
    gone = tries.each([one for one in going if not one.version.current], _remove)
    return [*gone, *tries.each(current, _remove)]


def _mark(current: Sequence[Going], told: str, tries: _Tries) -> None:
    """Have each folder say that files go from it: the ledger may be lost, or restored from before."""
    folders = {one.folder: one for one in current if one.row.uri not in tries.failed}
    marked = tries.each(list(folders.values()), lambda one: landing_versions.mark(one.folder + CLEARED, told))
    for folder in folders.keys() - {one.folder for one in marked}:
        why = tries.failed[folders[folder].row.uri]
        tries.failed |= {one.row.uri: why for one in current if one.folder == folder}


def settle_begun(dataset: str) -> None:
    """Find out what became of files whose going was cut off: gone, or there and as due as before.

    Where the store does not tell of one, it waits for another turn, and keeps no other from its own.
    """
    if not (cut_off := landing_gone.begun(dataset)):
        return
    patience = Patience()
    now = list(zip(cut_off, _each(cut_off, lambda row: _found(row, patience)), strict=True))
    unknown = {_bytes_of(row) for row, state in now if not state}
    there = {_bytes_of(row) for row, state in now if state == BEGUN} - unknown
    ended = [(row, state) for row, state in now if _bytes_of(row) not in unknown | there]
    landing_gone.note([_ended(row, state) for row, state in ended])
    landing_gone.forget([row for row in cut_off if _bytes_of(row) in there])


def _found(row: Gone, patience: Patience) -> str:
    """The state that a version is in, by the store; empty where that does not tell."""
    found = _tried(lambda: _looked_for(row), patience)
    if isinstance(found, Gone):
        return found.state
    log.warning("what became of %s is not known yet: %s", row.uri, found)
    return ""


def _looked_for(row: Gone) -> Gone:
    if landing_versions.is_there(key_of(row.uri), row.version):
        return row
    # It went by other hands where there is no copy of it.
    copied = not row.archived_to or landing_versions.is_there(key_of(row.archived_to))
    return row._replace(state=DONE if copied else ABSENT)


def _ended(row: Gone, state: str) -> Gone:
    return row._replace(state=state, archived_to=row.archived_to if state == DONE else "")


def _row(dataset: str, one: Leaving, state: str, *, archive: bool = False) -> Gone:
    file, version = one.file, one.version.id if one.version else ""
    # A batch and a name stand for the same bytes for ever.
    to = f"s3://{place(f'{ARCHIVE}{dataset}/{file.batch_id}/{key_of(file.uri)}')}" if archive else ""
    return Gone(dataset, file.batch_id, file.uri, version, file.etag, file.bytes, to, state)


def _archive(one: Going) -> None:
    landing_versions.copy(one.version, key_of(one.row.archived_to))


def _remove(one: Going) -> None:
    landing_versions.remove(one.version.key, one.version.id)


def _tried(act: Callable[[], R], patience: Patience) -> R | str:
    """What came of it, or why the store failed; raises where it fails for all."""
    if patience.lost:
        raise patience.lost
    try:
        found = act()
    except LakehouseError as error:
        patience.saw(error)
        if patience.lost:
            raise
        return first_sentence(error)
    patience.saw(None)
    return found


def _each(given: Sequence[T], act: Callable[[T], R]) -> list[R]:
    """Several at once: a store answers late, but many."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(act, given))
