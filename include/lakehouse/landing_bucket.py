"""The landing bucket: its objects as the store lists them."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from lakehouse.batch import InputFile
from lakehouse.errors import LakehouseError
from lakehouse.roles import Role
from lakehouse.settings import settings
from lakehouse.store import answering, client


class LandingError(LakehouseError):
    """What is in a landing folder is wrong, and waiting will not mend it."""


class Object(NamedTuple):
    """An object as the store lists it."""

    key: str
    etag: str
    bytes: int
    changed: datetime

    @property
    def file(self) -> InputFile:
        return InputFile(uri=f"s3://{place(self.key)}", etag=self.etag, bytes=self.bytes)


class Listing(NamedTuple):
    """The objects under a prefix, and the store's own time when it began to list them."""

    at: datetime
    objects: list[Object]


def key_of(uri: str) -> str:
    """The key of a file that the ledger names by its address."""
    return uri.removeprefix(f"s3://{place('')}")


def place(key: str) -> str:
    """A landing object as people read it: bucket and key."""
    return f"{settings().landing_bucket}/{key}"


def listed(prefix: str) -> Listing:
    """What is there under a prefix."""
    bucket = settings().landing_bucket
    with answering():
        pages = list(client(Role.INGEST).get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix))
    at = parsedate_to_datetime(pages[0]["ResponseMetadata"]["HTTPHeaders"]["date"])
    found = [one for page in pages for one in page.get("Contents", [])]
    return Listing(at, [Object(o["Key"], o["ETag"].strip('"'), o["Size"], o["LastModified"]) for o in found])
