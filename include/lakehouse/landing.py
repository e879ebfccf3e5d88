"""What is in an interval's landing folder, and whether it is complete."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple

from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from lakehouse.batch import InputFile
from lakehouse.contracts.fields import Ready, write_duration
from lakehouse.contracts.model import Bronze
from lakehouse.errors import LakehouseError
from lakehouse.roles import Role
from lakehouse.settings import settings
from lakehouse.store import StoreUnreachable, client

log = logging.getLogger(__name__)
# One triggerer reads the manifests of all that wait: a data file named by mistake must not fill its memory.
MOST_MANIFEST_BYTES = 64 << 20


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


class Listed(BaseModel):
    """A file as a manifest lists it: by its name alone, or with size and checksum."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1, validation_alias=AliasChoices("name", "path", "key", "url"))
    size: int | None = Field(None, validation_alias=AliasChoices("size", "bytes", "content_length"))
    etag: str | None = Field(None, validation_alias=AliasChoices("etag", "md5"))

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, given: Any) -> Any:
        if isinstance(given, str):
            return {"name": given}
        # UNLOAD of Amazon Redshift writes {"url": ..., "meta": {"content_length": ...}}.
        return {**given, **given["meta"]} if isinstance(given, dict) and isinstance(given.get("meta"), dict) else given

    def unlike(self, found: Object | None) -> str | None:
        """The file's name, and what is wrong with it, unless it is there as listed."""
        if found is None:
            return self.name
        if self.size not in (None, found.bytes):
            return f"{self.name} ({found.bytes} of {self.size} bytes)"
        return f"{self.name} (its content is not the one listed)" if self._differs(found.etag) else None

    def _differs(self, etag: str) -> bool:
        listed = (self.etag or etag).strip('"').lower()
        # The ETag of an upload in parts has a dash and is no checksum of the whole: it tells nothing about an MD5.
        return ("-" in listed) == ("-" in etag) and listed != etag.lower()


@dataclass(frozen=True)
class Manifest:
    """The files that a manifest lists, by key."""

    key: str
    files: dict[str, Listed]

    def awaited(self, objects: Sequence[Object]) -> str | None:
        """Which of the files are not there as listed."""
        there = {one.key: one for one in objects}
        unlike = [told for key, listed in self.files.items() if (told := listed.unlike(there.get(key)))]
        return (
            f"{len(unlike)} of {len(self.files)} files of {place(self.key)}, the first {unlike[0]}" if unlike else None
        )


def place(key: str) -> str:
    """A landing object as people read it: bucket and key."""
    return f"{settings().landing_bucket}/{key}"


def hidden(name: str) -> bool:
    """Whether a file is no data by its name or by that of a folder it is in, as Spark and Hadoop have it."""
    return name.endswith("/") or any(part.startswith(("_", ".")) for part in name.split("/"))


def data_files(contract: Bronze, start: datetime) -> list[InputFile]:
    """The interval's files that are data: those that its manifest lists, or else all that are not hidden."""
    prefix, ready = contract.landing_prefix(start), contract.source.ready
    if not ready.manifest:
        return [one.file for one in _data(prefix, ready, _listing(prefix).objects)]
    manifest = _manifest(prefix, ready.manifest)
    if manifest is None:
        raise LandingError(f"{place(prefix + ready.manifest)} is not there; deliver it again")
    objects = _listing(prefix).objects
    if told := manifest.awaited(objects):
        raise LandingError(f"not there: {told}; deliver them, or correct the manifest")
    if ignored := [one for one in _data(prefix, ready, objects) if one.key not in manifest.files]:
        log.warning("%d files of %s ignored, which %s does not list", len(ignored), place(prefix), ready.manifest)
    return [one.file for one in objects if one.key in manifest.files]


def objects(contract: Bronze, start: datetime) -> list[Object]:
    """All that is in the interval's landing folder, marker and hidden files included."""
    return _listing(contract.landing_prefix(start)).objects


def missing(contract: Bronze, start: datetime, end: datetime) -> str | None:
    """What the interval's landing folder still waits for; None when it is complete."""
    return awaited(contract.landing_prefix(start), contract.source.ready, end)


def awaited(prefix: str, ready: Ready, end: datetime) -> str | None:
    """What a landing folder still waits for; None when it is complete."""
    if ready.quiet:
        listing = _listing(prefix)
        return _restless(prefix, ready.quiet, end, listing, _data(prefix, ready, listing.objects))
    key = prefix + ready.signal
    if not ready.manifest:
        return None if any(one.key == key for one in _listing(key).objects) else place(key)
    manifest = _manifest(prefix, ready.manifest)
    return manifest.awaited(_listing(prefix).objects) if manifest else place(key)


def _restless(prefix: str, quiet: timedelta, end: datetime, listing: Listing, data: Sequence[Object]) -> str | None:
    """Why a folder is not quiet; all by the store's clock, since ours may be another."""
    if listing.at < end:
        return f"the interval's end at {end.isoformat()}"
    if not data:
        return f"a first file in {place(prefix)}"
    age = listing.at - max(one.changed for one in listing.objects)
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
        with _answering():
            client().upload_file(str(file), settings().landing_bucket, prefix + file.name)


def mark_complete(contract: Bronze, start: datetime, names: Sequence[str]) -> None:
    """Say that the interval's folder is complete with the files of these names; nothing to do where quiet says it."""
    prefix, ready = contract.landing_prefix(start), contract.source.ready
    body = _manifest_with(prefix, ready, names) if ready.manifest else ""
    if ready.signal:
        with _answering():
            client().put_object(Bucket=settings().landing_bucket, Key=prefix + ready.signal, Body=body.encode())


def _manifest_with(prefix: str, ready: Ready, names: Sequence[str]) -> str:
    """A manifest of what the old one lists and these files; the first one lists all that is in the folder."""
    old = _manifest(prefix, ready.signal)
    landed = {prefix + name for name in names}
    data = [one for one in _data(prefix, ready, _listing(prefix).objects) if old is None or one.key in landed]
    new = {one.key: Listed(name=one.key.removeprefix(prefix), size=one.bytes) for one in data}
    files = {**(old.files if old else {}), **new}.values()
    return json.dumps({"files": [one.model_dump(exclude_none=True) for one in files]}, indent=2)


def _manifest(prefix: str, name: str) -> Manifest | None:
    with _answering():
        try:
            found = client(Role.INGEST).get_object(Bucket=settings().landing_bucket, Key=prefix + name)
        except client(Role.INGEST).exceptions.NoSuchKey:
            return None
        if found["ContentLength"] > MOST_MANIFEST_BYTES:
            raise _no_manifest(prefix + name, f"it has {found['ContentLength']} bytes")
        return read_manifest(prefix, name, found["Body"].read())


def read_manifest(prefix: str, name: str, body: bytes) -> Manifest:
    """The files that a manifest lists: JSON, or text with one name a line."""
    try:
        listed = TypeAdapter(list[Listed]).validate_python(_entries(name, body.decode("utf-8-sig").strip()))
        files = {_key(prefix, one.name): one for one in listed}
    except ValueError as error:
        raise _no_manifest(prefix + name, _reason(error)) from None
    return Manifest(prefix + name, {key: one for key, one in files.items() if key != prefix + name})


def _no_manifest(key: str, why: str) -> LandingError:
    fix = 'list the folder\'s files as {"files": [...]} or one name a line, or write [] where there are none'
    return LandingError(f"{place(key)} is no manifest: {why}; {fix}")


def _entries(name: str, text: str) -> Any:
    if name.endswith(".json") or text.startswith(("{", "[")):
        found = json.loads(text)
        return found.get("files", found.get("entries")) if isinstance(found, dict) else found
    if not text:
        raise ValueError("it is empty")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _key(prefix: str, name: str) -> str:
    """The key of a file that is named by its address, by its key, or as seen from its folder."""
    scheme, found, address = name.partition("://")
    if not found:
        key = name.removeprefix("./").lstrip("/")
        return key if key.startswith(prefix) else prefix + key
    if scheme not in ("s3", "s3a", "s3n") or not address.startswith(place(prefix)):
        raise ValueError(f"{name} is not in {place(prefix)}")
    return address.removeprefix(place(""))


def _reason(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    return f"files{where}: {first['msg']}"


def _listing(prefix: str) -> Listing:
    bucket = settings().landing_bucket
    with _answering():
        pages = list(client(Role.INGEST).get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix))
    at = parsedate_to_datetime(pages[0]["ResponseMetadata"]["HTTPHeaders"]["date"])
    found = [one for page in pages for one in page.get("Contents", [])]
    return Listing(at, [Object(o["Key"], o["ETag"].strip('"'), o["Size"], o["LastModified"]) for o in found])


@contextmanager
def _answering() -> Iterator[None]:
    """A store that does not answer, or refuses, is told as such."""
    try:
        yield
    except (BotoCoreError, ClientError, S3UploadFailedError) as error:
        raise StoreUnreachable(f"the object store at {settings().s3_endpoint} failed: {error}") from error
