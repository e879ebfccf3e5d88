"""What is in an interval's landing folder, and whether it is complete."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakehouse.batch import InputFile
from lakehouse.contracts.fields import Ready, write_duration
from lakehouse.contracts.model import Bronze
from lakehouse.landing_bucket import LandingError, Listing, Object, key_of, listed, place
from lakehouse.landing_cleared import gone_from, is_mark
from lakehouse.ledger import landing_gone
from lakehouse.ledger.landing_gone import ABSENT, DONE, Gone
from lakehouse.manifest import Listed, Manifest, no_manifest, read_manifest
from lakehouse.roles import Role
from lakehouse.settings import settings
from lakehouse.store import answering, client

__all__ = [
    "LandingError",
    "awaited",
    "data_files",
    "hidden",
    "mark_complete",
    "missing",
    "not_there",
    "objects",
    "place",
    "put",
    "went",
]

log = logging.getLogger(__name__)
# One triggerer reads the manifests of all that wait: a data file named by mistake must not fill its memory.
MOST_MANIFEST_BYTES = 64 << 20


def hidden(name: str) -> bool:
    """Whether a file is no data by its name or by that of a folder it is in, as Spark and Hadoop have it."""
    return name.endswith("/") or any(part.startswith(("_", ".")) for part in name.split("/"))


def data_files(contract: Bronze, start: datetime) -> list[InputFile]:
    """The interval's files that are data: those that its manifest lists, or else all that are not hidden."""
    prefix, ready = contract.landing_prefix(start), contract.source.ready
    if not ready.manifest:
        return [one.file for one in _data(prefix, ready, listed(prefix).objects)]
    manifest = _manifest(prefix, ready.manifest)
    if manifest is None:
        raise LandingError(f"{place(prefix + ready.manifest)} is not there; deliver it again")
    objects = listed(prefix).objects
    if told := _lacking(prefix, manifest, objects):
        raise LandingError(f"not there: {told}; deliver them, or correct the manifest")
    if ignored := [one for one in _data(prefix, ready, objects) if one.key not in manifest.files]:
        log.warning("%d files of %s ignored, which %s does not list", len(ignored), place(prefix), ready.manifest)
    return [one.file for one in objects if one.key in manifest.files]


def objects(contract: Bronze, start: datetime) -> list[Object]:
    """All that is in the interval's landing folder, marker and hidden files included."""
    return listed(contract.landing_prefix(start)).objects


def missing(contract: Bronze, start: datetime, end: datetime) -> str | None:
    """What the interval's landing folder still waits for; None when it is complete."""
    return awaited(contract.landing_prefix(start), contract.source.ready, end)


def awaited(prefix: str, ready: Ready, end: datetime) -> str | None:
    """What a landing folder still waits for; None when it is complete."""
    if ready.quiet:
        listing = listed(prefix)
        return _restless(prefix, ready.quiet, end, listing, _data(prefix, ready, listing.objects))
    key = prefix + ready.signal
    if not ready.manifest:
        return None if any(one.key == key for one in listed(key).objects) else place(key)
    manifest = _manifest(prefix, ready.manifest)
    return _lacking(prefix, manifest, listed(prefix).objects) if manifest else place(key)


def _lacking(prefix: str, manifest: Manifest, objects: Sequence[Object]) -> str | None:
    """What of a manifest's files is not there, and did not go after it was taken. The ledger is asked in need only."""
    return manifest.awaited(objects, gone_from(prefix, objects)) if manifest.awaited(objects) else None


def not_there(rows: Iterable[Gone]) -> Iterator[Gone]:
    """Those of files that went, or were about to, that landing has not as they were: some are brought back."""
    for row in rows:
        if not any(one.file.uri == row.uri and one.etag == row.etag for one in listed(key_of(row.uri)).objects):
            yield row


def went(contract: Bronze, start: datetime) -> list[str]:
    """How many files went from the interval's folder, when and where to: a line for each day and way."""
    rows = landing_gone.under(f"s3://{place(contract.landing_prefix(start))}")
    ways = Counter((f"{row.at:%Y-%m-%d}", _way(row)) for row in rows)
    return [f"{count} file{'' if count == 1 else 's'} {way} on {day}" for (day, way), count in sorted(ways.items())]


def _way(row: Gone) -> str:
    if row.state == ABSENT:
        return f"found missing, with a copy in {_archive_of(row)}" if row.archived_to else "found missing"
    way = f"archived in {_archive_of(row)}" if row.archived_to else "deleted"
    return way if row.state == DONE else f"about to be {way}"


def _archive_of(row: Gone) -> str:
    return row.archived_to.removesuffix(key_of(row.uri))


def _restless(prefix: str, quiet: timedelta, end: datetime, listing: Listing, data: Sequence[Object]) -> str | None:
    """Why a folder is not quiet; all by the store's clock, since ours may be another."""
    if listing.at < end:
        return f"the interval's end at {end.isoformat()}"
    if not data and not gone_from(prefix, listing.objects):
        return f"a first file in {place(prefix)}"
    changes = [one.changed for one in listing.objects if not is_mark(one.key)]
    age = listing.at - max(changes, default=datetime.min.replace(tzinfo=UTC))
    return f"quiet for {write_duration(quiet)}, last change {_rough(age)} ago" if age < quiet else None


def _rough(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    return f"{seconds}s" if seconds < 120 else f"{seconds // 60}m"


def _data(prefix: str, ready: Ready, objects: Sequence[Object]) -> list[Object]:
    signal = prefix + ready.signal
    return [one for one in objects if one.key != signal and not hidden(one.key.removeprefix(prefix))]


def put(contract: Bronze, start: datetime, files: Sequence[Path]) -> None:
    """Upload files into the interval's landing folder."""
    prefix = contract.landing_prefix(start)
    for file in files:
        with answering():
            client().upload_file(str(file), settings().landing_bucket, prefix + file.name)


def mark_complete(contract: Bronze, start: datetime, names: Sequence[str]) -> None:
    """Say that the interval's folder is complete with the files of these names; nothing to do where quiet says it."""
    prefix, ready = contract.landing_prefix(start), contract.source.ready
    body = _manifest_with(prefix, ready, names) if ready.manifest else ""
    if ready.signal:
        with answering():
            client().put_object(Bucket=settings().landing_bucket, Key=prefix + ready.signal, Body=body.encode())


def _manifest_with(prefix: str, ready: Ready, names: Sequence[str]) -> str:
    """A manifest of what the old one lists and these files; the first one lists all that is in the folder."""
    old = _manifest(prefix, ready.signal)
    landed = {prefix + name for name in names}
    data = [one for one in _data(prefix, ready, listed(prefix).objects) if old is None or one.key in landed]
    new = {one.key: Listed(name=one.key.removeprefix(prefix), size=one.bytes) for one in data}
    files = {**(old.files if old else {}), **new}.values()
    return json.dumps({"files": [one.model_dump(exclude_none=True) for one in files]}, indent=2)


def _manifest(prefix: str, name: str) -> Manifest | None:
    with answering():
        try:
            found = client(Role.INGEST).get_object(Bucket=settings().landing_bucket, Key=prefix + name)
        except client(Role.INGEST).exceptions.NoSuchKey:
            return None
        if found["ContentLength"] > MOST_MANIFEST_BYTES:
            raise no_manifest(prefix + name, f"it has {found['ContentLength']} bytes")
        return read_manifest(prefix, name, found["Body"].read())
