"""Manifests: the files of a landing folder as their source lists them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from lakehouse.landing_bucket import LandingError, Object, place


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

    def awaited(self, objects: Sequence[Object], gone: Sequence[Object] = ()) -> str | None:
        """Which of the files are not there as listed, and did not go after they were taken as listed."""
        there, taken = {one.key: one for one in objects}, [one for one in gone if one.key in self.files]
        went = {one.key for one in taken if one.key not in there and self.files[one.key].unlike(one) is None}
        unlike = [
            told for key, listed in self.files.items() if key not in went and (told := listed.unlike(there.get(key)))
        ]
        return (
            f"{len(unlike)} of {len(self.files)} files of {place(self.key)}, the first {unlike[0]}" if unlike else None
        )


def read_manifest(prefix: str, name: str, body: bytes) -> Manifest:
    """The files that a manifest lists: JSON, or text with one name a line."""
    try:
        listed = TypeAdapter(list[Listed]).validate_python(_entries(name, body.decode("utf-8-sig").strip()))
        files = {_key(prefix, one.name): one for one in listed}
    except ValueError as error:
        raise no_manifest(prefix + name, _reason(error)) from None
    return Manifest(prefix + name, {key: one for key, one in files.items() if key != prefix + name})


def no_manifest(key: str, why: str) -> LandingError:
    """What is told of an object that should be a manifest."""
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
