"""Clearing landing: files that are past their time are archived or deleted, each noted before it is touched.

Copies are made and looked at first, then versions that are not current go, then those that are: whenever it is cut
off, nothing comes forth in landing that was not current before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lakehouse import landing_versions
from lakehouse.contracts.model import Bronze
from lakehouse.jobs import Maintained
from lakehouse.landing_bucket import key_of, place
from lakehouse.landing_versions import Version
from lakehouse.ledger import landing_gone
from lakehouse.ledger.landing_gone import ABSENT, BEGUN, DONE, Gone
from lakehouse.maintenance.landing_files import Leaving, clearing
from lakehouse.maintenance.step import Step
from lakehouse.naming import ARCHIVE

_AT_ONCE = 8
T = TypeVar("T")


def clear(contract: Bronze, step: Step, still_ours: Callable[[], None]) -> Maintained:
    """Have files go that may go now, no more than the step says. Call it under the lease."""
    if step.taken_before is None:
        return Maintained(counters={"files": 0})
    leaving = clearing(contract, step.taken_before, step.files).leaving
    still_ours()
    landing_gone.note([_row(contract.dataset, one, ABSENT) for one in leaving if one.version is None])
    rows = {_row(contract.dataset, one, BEGUN, archive=step.archive): one.version for one in leaving if one.version}
    landing_gone.note(list(rows))
    _each(list(rows.items()) if step.archive else [], _archive)
    still_ours()
    for current in (False, True):
        _each([version for version in rows.values() if version.current is current], _remove)
    landing_gone.note([row._replace(state=DONE) for row in rows])
    counters = {"files": len(rows), "bytes": sum(row.bytes for row in rows), "absent": len(leaving) - len(rows)}
    return Maintained(counters=counters, files=tuple(row.uri for row in rows))


def settle_begun(dataset: str) -> None:
    """Find out what became of files whose going was cut off: gone, or there and as due as before."""
    cut_off = landing_gone.begun(dataset)
    if not cut_off:
        return
    there = dict(zip(cut_off, _each(cut_off, _is_there), strict=True))
    landing_gone.note([_ended(row) for row in cut_off if not there[row]])
    landing_gone.forget([row for row in cut_off if there[row]])


def _is_there(row: Gone) -> bool:
    return landing_versions.is_there(key_of(row.uri), row.version)


def _ended(row: Gone) -> Gone:
    """A version that is not there any more; it went by other hands where there is no copy of it."""
    if row.archived_to and not landing_versions.is_there(key_of(row.archived_to)):
        return row._replace(state=ABSENT, archived_to="")
    return row._replace(state=DONE)


def _row(dataset: str, one: Leaving, state: str, *, archive: bool = False) -> Gone:
    file, version = one.file, one.version.id if one.version else ""
    # A batch and a name stand for the same bytes for ever.
    to = f"s3://{place(f'{ARCHIVE}{dataset}/{file.batch_id}/{key_of(file.uri)}')}" if archive else ""
    return Gone(dataset, file.batch_id, file.uri, version, file.etag, file.bytes, to, state)


def _archive(pair: tuple[Gone, Version]) -> None:
    row, version = pair
    landing_versions.copy(version, key_of(row.archived_to))


def _remove(version: Version) -> None:
    landing_versions.remove(version.key, version.id)


def _each(given: Sequence[T], act: Callable[[T], object]) -> list[object]:
    """Several at once: a store answers late, but many."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(act, given))
