"""Landing folders that files have gone from: these say so themselves, as the ledger may be from before."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from lakehouse.contracts.model import Bronze
from lakehouse.landing_bucket import LandingError, Object, key_of, listed, place
from lakehouse.ledger import landing_gone, taken_files
from lakehouse.ledger.answering import answers
from lakehouse.naming import ARCHIVE, CLEARED
from lakehouse.roles import Role
from lakehouse.settings import settings
from lakehouse.store import answering, client

_FOLDERS_AT_ONCE = 8


def is_mark(key: str) -> bool:
    """Whether an object says of its folder that files have gone from it."""
    return key.rpartition("/")[2] == CLEARED


def check_known_if_cleared(contract: Bronze, start: datetime) -> None:
    """`LandingError` where files went from the interval's folder, and the ledger does not know that they were taken.

    It was restored from an older backup, or the dataset came later; what is left is not all of the interval.
    """
    dataset, prefix = contract.dataset, contract.landing_prefix(start)
    there = listed(prefix).objects
    cleared = _cleared(prefix, there)
    for folder in cleared:
        if not taken_files.took_from(_address(folder), dataset):
            raise _unknown(folder, f"the ledger knows no batch of {dataset} that took its files")
    undone = set(taken_files.undone_under(dataset, _address(prefix))) if cleared else set()
    if lost := sorted(undone - {one.file.uri for one in there}):
        raise _unknown(cleared[0], f"of those whose batch was undone {len(lost)} are not there, such as {lost[0]}")


def gone_from(prefix: str, there: Iterable[Object]) -> list[Object]:
    """The files that were in a folder until they were taken, and are past their time.

    Where the folder says that it was cleared, all that was taken may be among them: an older ledger has no other word
    of it. `LandingError` where it knows of nothing that was taken.
    """
    address = _address(prefix)
    with answers():
        known = [Object(key_of(row.uri), row.etag, row.bytes, row.at) for row in landing_gone.under(address)]
        cleared = _cleared(prefix, there)
        taken = taken_files.taken_under(address) if cleared else []
        known += [Object(key_of(one.uri), one.etag, one.bytes, one.at) for one in taken]
        strange = [folder for folder in cleared if not known and not taken_files.took_from(_address(folder))]
    if strange:
        raise _unknown(strange[0], "the ledger knows no batch that took its files")
    return known


def lost(uris: Collection[str]) -> set[str]:
    """Those of files that are not there, of folders that say that files went from them, whatever the ledger knows."""
    keys = {key_of(uri): uri for uri in uris}
    with ThreadPoolExecutor(_FOLDERS_AT_ONCE) as pool:
        folders = sorted({folder for key in keys for folder in _folders(key)})
        marked = {folder for folder, said in zip(folders, pool.map(_is_marked, folders), strict=True) if said}
        doubtful = {key for key in keys if not marked.isdisjoint(_folders(key))}
        listings = pool.map(listed, sorted({_folders(key)[-1] for key in doubtful}))
        there = {one.key for listing in listings for one in listing.objects}
    return {keys[key] for key in doubtful - there}


def _cleared(prefix: str, there: Iterable[Object]) -> list[str]:
    """The folders that say so: the named one, those within it, and those that it is in, as paths were others once."""
    above = [folder for folder in _folders(prefix)[:-1] if _is_marked(folder)]
    return [*above, *(one.key.removesuffix(CLEARED) for one in there if is_mark(one.key))]


def _folders(key: str) -> list[str]:
    """The folders that an object is in, the outermost first; of a folder, itself is the last."""
    return [key[: place + 1] for place, letter in enumerate(key) if letter == "/"]


def _is_marked(folder: str) -> bool:
    key = folder + CLEARED
    return any(one.key == key for one in listed(key).objects)


def _address(prefix: str) -> str:
    return f"s3://{place(prefix)}"


def _unknown(folder: str, why: str) -> LandingError:
    told = _told(folder + CLEARED)
    by, since = told.get("dataset", "maintenance"), told.get("since", "some day")
    archive = place(f"{ARCHIVE}{told.get('dataset', '')}")
    return LandingError(
        f"{place(folder)} was cleared for {by} since {since}, and {why}; bring them back, from {archive} or from a "
        f"backup where they were deleted, and remove {place(folder + CLEARED)}; or only remove it if the interval is "
        "really to be without them"
    )


def _told(key: str) -> dict[str, Any]:
    """What the object says that a cleared folder has."""
    with answering():
        body = client(Role.INGEST).get_object(Bucket=settings().landing_bucket, Key=key)["Body"].read()
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
