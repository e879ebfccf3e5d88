"""The bytes of landing files, as the store gives them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import lru_cache, partial
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.exceptions import BaseError, NotFoundError, PreconditionError
from obstore.store import S3Store

from lakehouse.errors import LakehouseError
from lakehouse.identities import Identity, identity
from lakehouse.roles import Role
from lakehouse.settings import Settings, settings
from lakehouse.store import StoreUnreachable, client

CHUNK_BYTES = 1 << 20
# Files up to this size are fetched whole, so many of them while the one before them is read.
SMALL_BYTES, AHEAD = 1 << 20, 8
# Names that obstore asks for as they are: of others it makes a path first.
_PLAIN = re.compile(r"(?:(?!\.{1,2}(?:/|$))[A-Za-z0-9_.=-]+(?:/|$))+(?<!/)", re.ASCII)


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
    small = file.bytes <= SMALL_BYTES and _PLAIN.fullmatch(key)
    yield from _at_once(file, bucket, key) if small else _streamed(file, bucket, key)


def _streamed(file: Planned, bucket: str, key: str) -> Iterator[bytes]:
    try:
        found: Any = client(Role.INGEST).get_object(Bucket=bucket, Key=key, IfMatch=file.etag)
        _same(file, found["ETag"])
        yield from found["Body"].iter_chunks(CHUNK_BYTES)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 412):
            raise _changed(file) from None
        raise StoreUnreachable(f"the object store at {settings().s3_endpoint} refused {file.uri}: {error}") from error
    except BotoCoreError as error:
        raise StoreUnreachable(f"the object store at {settings().s3_endpoint} failed at {file.uri}: {error}") from error


def _at_once(file: Planned, bucket: str, key: str) -> Iterator[bytes]:
    """A small file, whole: of many of them most of the time is the client's own, and obstore takes a tenth of it."""
    try:
        given = settings()
        found = _bucket(bucket, given, identity(given, Role.INGEST)).get(key, options={"if_match": f'"{file.etag}"'})
        _same(file, found.meta["e_tag"])
        yield bytes(found.bytes())
    except (FileNotFoundError, NotFoundError, PreconditionError):
        raise _changed(file) from None
    except (BaseError, OSError) as error:
        told = str(error).partition("\n")[0]
        raise StoreUnreachable(f"the object store at {settings().s3_endpoint} failed at {file.uri}: {told}") from error


@lru_cache(maxsize=4)
def _bucket(name: str, given: Settings, own: Identity) -> S3Store:
    keys = {"access_key_id": own.access_key, "secret_access_key": own.secret_key}
    return S3Store(
        name,
        endpoint=given.s3_endpoint if given.s3_path_style else given.s3_endpoint.replace("://", f"://{name}.", 1),
        region=given.s3_region,
        virtual_hosted_style_request=not given.s3_path_style,
        client_options={"allow_http": True, "connect_timeout": "5s", "timeout": "60s"},
        retry_config={"max_retries": 4, "retry_timeout": timedelta(seconds=60)},
        **(keys if own.access_key else {"credential_provider": Boto3CredentialProvider()}),
    )


def _same(file: Planned, etag: str | None) -> None:
    """Refuse what a store that does not know the condition gives instead."""
    if (etag or "").strip('"') != file.etag:
        raise _changed(file)


def _changed(file: Planned) -> LakehouseError:
    return LakehouseError(f"{file.uri} is gone or has changed since this run was planned; run it again")
