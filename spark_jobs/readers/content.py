"""The bytes of a landing file, as the store gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakehouse.errors import LakehouseError
from lakehouse.settings import settings
from lakehouse.store import StoreUnreachable, client

CHUNK_BYTES = 1 << 20

Fetch = Callable[[str, str], Iterable[bytes]]


class Content:
    """A file's bytes on their way, and the sum of all of them."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._sum = sha256()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        self._sum.update(chunk)
        return chunk

    def sha256(self) -> str:
        """The sum, over what nobody has read as well."""
        for _ in self:
            pass
        return self._sum.hexdigest()


def fetched(uri: str, etag: str) -> Iterator[bytes]:
    """The object's bytes; refused by the store when they are no longer those that the run was planned with."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    try:
        body: Any = client().get_object(Bucket=bucket, Key=key, IfMatch=etag)["Body"]
        yield from body.iter_chunks(CHUNK_BYTES)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 412):
            raise LakehouseError(f"{uri} is gone or has changed since this run was planned; run it again") from None
        raise StoreUnreachable(f"the object store at {settings().s3_endpoint} refused {uri}: {error}") from error
    except BotoCoreError as error:
        raise StoreUnreachable(f"the object store at {settings().s3_endpoint} failed at {uri}: {error}") from error
