"""The end of landing files whose lifetime is over."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from lakehouse.contracts.keeping import Retention
from lakehouse.jobs import Maintained
from lakehouse.ledger.lifetimes import Ingested, ingested_before, note_removed
from lakehouse.store import client

# Folders that begin with _ hold no data for any dataset.
ARCHIVE = "_archive/"
_MOST_FILES = 10_000
_NOTED_TOGETHER = 500


def remove_landing_files(dataset: str, kept: Retention, now: datetime) -> Maintained:
    """Delete or archive what was ingested long ago; a file that has changed since is left where it is."""
    if kept.landing is None:
        return Maintained(counters={})
    counters = {"removed": 0, "changed": 0, "gone": 0}
    files = ingested_before(dataset, now - kept.landing, _MOST_FILES)
    for first in range(0, len(files), _NOTED_TOGETHER):
        some = files[first : first + _NOTED_TOGETHER]
        for one in some:
            counters[_remove(one, archive=kept.archive)] += 1
        note_removed(some)
    return Maintained(counters=counters, files=tuple(one.uri for one in files))


def _remove(file: Ingested, *, archive: bool) -> str:
    """Take one file out of the landing bucket; says what became of it."""
    place = urlsplit(file.uri)
    bucket, key = place.netloc, place.path.lstrip("/")
    try:
        found = client().head_object(Bucket=bucket, Key=key)["ETag"].strip('"')
    except ClientError as error:
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 404:
            return "gone"
        raise
    if found != file.etag.strip('"'):
        return "changed"
    if archive:
        source = {"Bucket": bucket, "Key": key}
        client().copy_object(Bucket=bucket, Key=ARCHIVE + key, CopySource=source, CopySourceIfMatch=found)
    client().delete_object(Bucket=bucket, Key=key)
    return "removed"
