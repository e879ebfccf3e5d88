"""Every file that a version of a table names, and whether it is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from urllib.parse import urlsplit

from botocore.exceptions import ClientError
from pyiceberg.table import Table

from lakehouse.errors import LakehouseError
from lakehouse.health.entries import live_entries
from lakehouse.store import client

_SHOWN = 5


class FilesMissing(LakehouseError):
    """A version names a file that is not there."""


def reachable(found: Table) -> Iterator[str]:
    """The path of every file that any version names, whichever ref leads to it: lists, lists of lists, data, deletes.

    A manifest is read once, however many versions share it, and one at a time. A path may come twice.
    """
    seen: set[str] = set()
    for snapshot in found.metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(found.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            yield manifest.manifest_path
            yield from (entry.path for entry in live_entries(manifest, found.io))
    yield from (each.statistics_path for each in found.metadata.statistics)
    if found.metadata_location:
        yield found.metadata_location


def check(name: str, found: Table) -> int:
    """Count the files that the table's versions name; `FilesMissing` where one is not there.

    The table's folder is listed once. Only what lies elsewhere is asked for one by one.
    """
    there = set(listed(found.location()))
    paths = set(reachable(found))
    missing = [path for path in paths - there if outside(path, found.location()) is False or not _exists(path)]
    if missing:
        shown = ", ".join(sorted(missing)[:_SHOWN])
        raise FilesMissing(f"{name}: {len(missing)} of {len(paths)} files that its versions name are gone: {shown}")
    return len(paths)


def outside(path: str, location: str) -> bool:
    """Whether a path is not below the table's folder."""
    return not path.startswith(location.rstrip("/") + "/")


def listed(location: str) -> Iterator[str]:
    """The path of every object below a table's folder."""
    yield from (path for path, _ in written(location))


def written(location: str) -> Iterator[tuple[str, datetime]]:
    """The same, with when each was written."""
    place = urlsplit(location)
    prefix = place.path.strip("/") + "/"
    pages = client().get_paginator("list_objects_v2").paginate(Bucket=place.netloc, Prefix=prefix)
    for page in pages:
        for one in page.get("Contents", ()):
            yield f"{place.scheme}://{place.netloc}/{one['Key']}", one["LastModified"]


def prefixes(paths: Iterable[str]) -> set[str]:
    """The schemes and buckets that paths begin with, such as s3://lake."""
    return {f"{place.scheme}://{place.netloc}" for place in map(urlsplit, paths)}


def _exists(path: str) -> bool:
    place = urlsplit(path)
    try:
        client().head_object(Bucket=place.netloc, Key=place.path.lstrip("/"))
    except ClientError:
        return False
    return True
