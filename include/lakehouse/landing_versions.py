"""The versions of landing files: the store keeps each, so that one can be removed whatever comes at that moment."""

from __future__ import annotations

from typing import Any, NamedTuple

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError, ReadTimeoutError

from lakehouse.errors import LakehouseError
from lakehouse.landing_bucket import LandingError, place
from lakehouse.roles import Role
from lakehouse.settings import settings
from lakehouse.store import answering, client, is_away

# The store copies by itself; what it copies at once has to be done before we take it for dead.
_IN_PARTS = TransferConfig(multipart_threshold=1 << 30, multipart_chunksize=1 << 29)
_KNOWS_NO_VERSIONS = ("NotImplemented", "MethodNotAllowed")  # so a store answers that has none at all


_MOST_HANGING = 24  # in a row


class Patience:
    """With a store that is away, or takes requests and answers none: to wait for each of thousands would take hours."""

    def __init__(self) -> None:
        self._hanging = 0
        self.lost: LakehouseError | None = None  # why no other request is made

    def saw(self, error: LakehouseError | None) -> None:
        """What a request came to."""
        hung = error is not None and isinstance(error.__cause__, ReadTimeoutError)
        self._hanging = self._hanging + 1 if hung else 0
        if error is not None and (is_away(error) or self._hanging >= _MOST_HANGING):
            self.lost = error


class Version(NamedTuple):
    """One version of a landing file, as the store lists it."""

    key: str
    id: str
    etag: str
    bytes: int
    current: bool  # what a reader of the key gets


def are_kept() -> bool:
    """Whether the landing bucket keeps versions: only then can one be removed without what came after it."""
    with answering():
        try:
            found = _own().get_bucket_versioning(Bucket=settings().landing_bucket)
        except ClientError as error:
            if error.response["Error"]["Code"] in _KNOWS_NO_VERSIONS:
                return False
            raise
    return bool(found.get("Status") == "Enabled")


def versions(prefix: str) -> list[Version]:
    """All versions of the files under a prefix."""
    with answering():
        pages = _own().get_paginator("list_object_versions").paginate(Bucket=settings().landing_bucket, Prefix=prefix)
        found = [one for page in pages for one in page.get("Versions", [])]
    return [Version(o["Key"], o["VersionId"], o["ETag"].strip('"'), o["Size"], o["IsLatest"]) for o in found]


def is_there(key: str, version: str = "") -> bool:
    """Whether a version of a file is there, or the file at all."""
    return _head(key, version) is not None


def remove(key: str, version: str) -> None:
    """Remove this one version; others of the file, also one that has just come, stay."""
    with answering():
        _own().delete_object(Bucket=settings().landing_bucket, Key=key, VersionId=version)


def copy(one: Version, to: str) -> None:
    """Have the version's bytes under another key, whole; `LandingError` where that key holds others.

    A batch and a name stand for the same bytes, so their size tells; an ETag also says how they came, and is another
    where the store encrypts.
    """
    found = _head(to)
    if found is not None and found["ContentLength"] != one.bytes:
        raise LandingError(f"{place(to)} is not what {place(one.key)} was; move it to another place")
    if found is None:
        source = {"Bucket": settings().landing_bucket, "Key": one.key, "VersionId": one.id}
        with answering():
            _own().copy(source, settings().landing_bucket, to, Config=_IN_PARTS)
        found = _head(to)
    if found is None or found["ContentLength"] != one.bytes:
        raise LandingError(f"{place(to)} did not become what {place(one.key)} is; the file stays where it is")


def mark(key: str, told: str) -> None:
    """Have an object with this text; one that is there stays as it is."""
    if not is_there(key):
        with answering():
            _own().put_object(Bucket=settings().landing_bucket, Key=key, Body=told.encode())


def _head(key: str, version: str = "") -> dict[str, Any] | None:
    asked = {"Bucket": settings().landing_bucket, "Key": key, **({"VersionId": version} if version else {})}
    with answering():
        try:
            found: dict[str, Any] = _own().head_object(**asked)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return None
            raise
    return found


def _own() -> Any:
    return client(Role.MAINTENANCE)
