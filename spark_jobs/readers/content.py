"""The bytes of landing files, as the store gives them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from lakehouse.errors import LakehouseError
from lakehouse.roles import Role
from lakehouse.settings import settings
from lakehouse.store import StoreUnreachable, client

CHUNK_BYTES = 1 << 20
# Files up to this size are fetched whole, so many of them while the one before them is read.
SMALL_BYTES, AHEAD = 1 << 20, 8


class Planned(NamedTuple):
    """A file as it was when the run was planned."""

    uri: str
    etag: str
    bytes: int


Fetch = Callable[[Planned], Iterable[bytes]]


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


def in_order(fetch: Fetch, files: Iterable[Planned]) -> Iterator[tuple[str, Content]]:
    """Each file with its bytes; small ones come while others are read: a store answers late, but many at once."""
    rest = iter(files)
    with ThreadPoolExecutor(AHEAD) as pool:

        def begun(file: Planned) -> tuple[str, Callable[[], Iterable[bytes]]]:
            if file.bytes > SMALL_BYTES:
                return file.uri, partial(fetch, file)
            return file.uri, pool.submit(lambda: list(fetch(file))).result

        waiting = deque(map(begun, islice(rest, AHEAD)))
        while waiting:
            uri, content = waiting.popleft()
            waiting.extend(map(begun, islice(rest, 1)))
            yield uri, Content(content())


def fetched(file: Planned) -> Iterator[bytes]:
    """The object's bytes, refused when they are no longer those that the run was planned with."""
    bucket, _, key = file.uri.removeprefix("s3://").partition("/")
    try:
        found: Any = client(Role.INGEST).get_object(Bucket=bucket, Key=key, IfMatch=file.etag)
        if found["ETag"].strip('"') != file.etag:  # a store may not know the condition
            raise _changed(file)
        yield from found["Body"].iter_chunks(CHUNK_BYTES)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 412):
            raise _changed(file) from None
        raise StoreUnreachable(f"the object store at {settings().s3_endpoint} refused {file.uri}: {error}") from error
    except BotoCoreError as error:
        raise StoreUnreachable(f"the object store at {settings().s3_endpoint} failed at {file.uri}: {error}") from error


def _changed(file: Planned) -> LakehouseError:
    return LakehouseError(f"{file.uri} is gone or has changed since this run was planned; run it again")
