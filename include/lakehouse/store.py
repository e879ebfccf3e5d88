"""Access to the object store: its client, job documents and their results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from threading import Lock
from typing import Any

import boto3
from boto3.exceptions import S3UploadFailedError
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, EndpointConnectionError
from botocore.session import Session
from botocore.utils import parse_timestamp

from lakehouse.errors import LakehouseError
from lakehouse.identities import acting, identity
from lakehouse.roles import Role
from lakehouse.settings import settings


class NoDocument(LakehouseError, LookupError):
    """The document was never there, or was deleted."""


class StoreUnreachable(LakehouseError, ConnectionError):
    """The object store does not answer, or refuses."""


_MAKING = Lock()


def client(role: Role | None = None) -> Any:
    """The one S3 client that this process has in a role, else in the one it acts in; for all its threads."""
    with _MAKING:
        return _client(role or acting())


@lru_cache(maxsize=len(Role))
def _client(role: Role) -> Any:
    given, own = settings(), identity(settings(), role)
    config = Config(
        connect_timeout=5,
        read_timeout=60,
        retries={"max_attempts": 4, "mode": "standard"},
        s3={"addressing_style": "path" if given.s3_path_style else "auto"},
    )
    return boto3.Session(botocore_session=_session()).client(
        "s3",
        endpoint_url=given.s3_endpoint,
        region_name=given.s3_region,
        aws_access_key_id=own.access_key or None,
        aws_secret_access_key=own.secret_key or None,
        config=config,
    )


def _session() -> Session:
    """A session that reads the times of a listing as what they are: to guess their form takes half of its time."""
    made = Session()
    made.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_moment)
    return made


def _moment(text: Any) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):  # a header's, or a number
        found: datetime = parse_timestamp(text)
        return found


@contextmanager
def answering() -> Iterator[None]:
    """A store that does not answer, or refuses, is told as such."""
    try:
        yield
    except (BotoCoreError, ClientError, S3UploadFailedError) as error:
        raise StoreUnreachable(f"the object store at {settings().s3_endpoint} failed: {error}") from error


def is_away(error: LakehouseError) -> bool:
    """Whether there was no connection at all: then nothing else will fare better."""
    return isinstance(error.__cause__, EndpointConnectionError | ConnectTimeoutError)


def put_document(key: str, document: str) -> None:
    """Write a job document or a result."""
    with answering():
        client().put_object(Bucket=settings().warehouse_bucket, Key=key, Body=document.encode())


def get_document(key: str) -> str:
    """Read a job document or a result."""
    with answering():
        try:
            body = client().get_object(Bucket=settings().warehouse_bucket, Key=key)["Body"].read()
        except client().exceptions.NoSuchKey:
            raise NoDocument(f"the object store at {settings().s3_endpoint} has no {key}") from None
    return str(body.decode())
