"""Objects of the store, out to a folder and back. What is there already is not copied again, and never replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

from boto3.s3.transfer import TransferConfig

from lakehouse.backup.model import NoBackup, Object
from lakehouse.naming import ARCHIVE
from lakehouse.settings import settings
from lakehouse.store import client

Tell = Callable[[str], None]
_AT_ONCE = 8
_TOLD_EVERY = 500
# In one piece up to what a store takes.
_IN_ONE_PIECE = TransferConfig(multipart_threshold=5 * 1024**3, use_threads=False)


def present() -> Iterator[Object]:
    """Every object of landing and warehouse.

    The archive comes after the folders: a file that is archived meanwhile is in one of them, or in both.
    """
    landing, warehouse = settings().landing_bucket, settings().warehouse_bucket
    yield from (one for one in _listed(landing) if not one.key.startswith(ARCHIVE))
    yield from _listed(landing, ARCHIVE)
    yield from _listed(warehouse)


def _listed(bucket: str, prefix: str = "") -> Iterator[Object]:
    for page in client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for one in page.get("Contents", ()):
            yield Object(bucket, one["Key"], one["ETag"].strip('"'), one["Size"])


def copy_out(objects: Iterable[Object], folder: Path, tell: Tell) -> int:
    """Copy what the folder does not hold yet; returns how many."""
    (folder / "objects").mkdir(mode=0o700, parents=True, exist_ok=True)
    new = [one for one in objects if not _held(one, folder)]
    return _each(new, lambda one: _fetch(one, folder), "objects copied", tell)


def copy_in(objects: Iterable[Object], folder: Path, tell: Tell) -> int:
    """Bring back what the store does not hold; returns how many.

    An object that has other content now stays: it came after the backup, and may be the only one of its kind.
    """
    there = {one.uri: one for one in present()}
    asked = list(objects)
    for one in asked:
        other = there.get(one.uri)
        if other and other.etag != one.etag:
            tell(f"{one.uri} has other content than in the backup; it stays as it is")
    missing = [one for one in asked if one.uri not in there]
    if lost := [one.key for one in missing if not _held(one, folder)]:
        raise NoBackup(f"{folder}/objects lacks {len(lost)} of the backup's objects, such as {lost[0]}.")
    return _each(missing, lambda one: _put(one, folder), "objects brought back", tell)


def _held(one: Object, folder: Path) -> bool:
    copy = one.within(folder)
    return copy.exists() and copy.stat().st_size == one.bytes


def _fetch(one: Object, folder: Path) -> None:
    """As it was listed, and whole under its name or not at all."""
    copy = one.within(folder)
    copy.parent.mkdir(parents=True, exist_ok=True)
    begun = copy.with_name(f".{uuid4().hex}")
    try:
        body = client().get_object(Bucket=one.bucket, Key=one.key, IfMatch=one.etag)["Body"]
        with begun.open("wb") as file:
            for piece in body.iter_chunks(1 << 20):
                file.write(piece)
        begun.rename(copy)
    finally:
        begun.unlink(missing_ok=True)


def _put(one: Object, folder: Path) -> None:
    client().upload_file(str(one.within(folder)), one.bucket, one.key, Config=_IN_ONE_PIECE)


def _each(objects: Sequence[Object], act: Callable[[Object], None], did: str, tell: Tell) -> int:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for number, _ in enumerate(pool.map(act, objects), 1):
            if number % _TOLD_EVERY == 0:
                tell(f"{number:,} of {len(objects):,} {did}")
    return len(objects)
