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
from lakehouse.landing_versions import Version
from lakehouse.ledger import landing_gone
from lakehouse.ledger.landing_gone import ABSENT, BEGUN, DONE, Gone, Span
from lakehouse.maintenance.landing_files import clearing
from lakehouse.maintenance.landing_folders import Leaving, folder_of
from lakehouse.maintenance.step import Step
from lakehouse.naming import ARCHIVE, CLEARED
from lakehouse.store import is_away
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

    def each(self, given: Sequence[Going], act: Callable[[Going], None]) -> list[Going]:
        """Those for which it went well."""
        todo = [one for one in given if one.row.uri not in self.failed]
        fared = list(zip(todo, _each(todo, lambda one: _failure(act, one)), strict=True))
        self.failed |= {one.row.uri: why for one, why in fared if why}
        return [one for one, why in fared if not why]


def clear(contract: Bronze, step: Step, still_ours: Callable[[], None]) -> Maintained:
    """Have files go that may go now, no more than the step says. Call it under the lease."""
    if step.taken_before is None:
        return Maintained(counters={"files": 0})
    # What is begun was tried by an earlier step of this turn.
    span = Span(step.taken_before, step.taken_from, begun=False)
    leaving = clearing(contract, span, step.files).leaving
    still_ours()
    absent = [_row(contract.dataset, one, ABSENT) for one in leaving if one.version is None]
    landing_gone.note(absent)
    going = list(_about_to_go(contract, step, leaving))
    landing_gone.note([one.row for one in going])
    tries = _Tries()
    gone = _go(contract, step, going, tries, still_ours)
    left = {_bytes_of(one.row) for one in set(going) - set(gone)}
    landing_gone.note([one.row._replace(state=DONE) for one in gone if _bytes_of(one.row) not in left])
    landing_gone.forget([one.row for one in gone if _bytes_of(one.row) in left])
    size = sum(one.row.bytes for one in gone)
    counters = {"files": len(gone), "bytes": size, "absent": len(absent), "failed": len(tries.failed)}
    failure = next(iter(tries.failed.values()), "")
    return Maintained(counters=counters, files=tuple(one.row.uri for one in gone), failure=failure)


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
    now = list(zip(cut_off, _each(cut_off, _found), strict=True))
    unknown = {_bytes_of(row) for row, state in now if not state}
    there = {_bytes_of(row) for row, state in now if state == BEGUN} - unknown
    ended = [(row, state) for row, state in now if _bytes_of(row) not in unknown | there]
    landing_gone.note([_ended(row, state) for row, state in ended])
    landing_gone.forget([row for row in cut_off if _bytes_of(row) in there])


def _found(row: Gone) -> str:
    """The state that a version is in, by the store; empty where that does not tell."""
    try:
        if landing_versions.is_there(key_of(row.uri), row.version):
            return BEGUN
        # It went by other hands where there is no copy of it.
        copied = not row.archived_to or landing_versions.is_there(key_of(row.archived_to))
        return DONE if copied else ABSENT
    except LakehouseError as error:
        if is_away(error):
            raise
        log.warning("what became of %s is not known yet: %s", row.uri, first_sentence(error))
        return ""


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


def _failure(act: Callable[[Going], None], one: Going) -> str:
    """Why the store failed for it, or nothing; raises where there is no store at all."""
    try:
        act(one)
    except LakehouseError as error:
        if is_away(error):
            raise
        return first_sentence(error)
    return ""


def _each(given: Sequence[T], act: Callable[[T], R]) -> list[R]:
    """Several at once: a store answers late, but many."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(act, given))
