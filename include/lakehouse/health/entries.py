"""Reading manifests one by one, and of each entry only what health needs.

PyIceberg's own readers build every entry with all its column metrics. A table of a hundred thousand files has too many
of these to keep; here they are skipped before they become objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, NamedTuple, cast

import fastavro
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile

# Iceberg's ids of the fields that are read: an entry's, and those of the file that it names.
_STATUS, _FILE = 0, 2
_CONTENT, _PATH, _PARTITION, _ROWS, _BYTES, _ONE, _PART = 134, 100, 102, 103, 104, 143, 145
# Sizes of columns, by the columns' ids: read only where somebody asks which columns a file holds.
_COLUMNS, _KEY = 108, "key"
_ASKED = {_STATUS, _FILE, _CONTENT, _PATH, _PARTITION, _ROWS, _BYTES, _ONE, _PART}
_OF_TIME = re.compile(r'"logicalType"(\s*:\s*"(?:date|time-|timestamp-|local-timestamp-))')
_Schema = dict[str, Any]


class Entry(NamedTuple):
    """A live file: of data, or of deletes."""

    is_data: bool
    path: str
    partition: tuple[Any, ...]
    rows: int
    bytes: int
    columns: frozenset[int] = frozenset()
    of_one: bool = False  # of deletes: they belong to one data file, as those of a deletion vector do


def live_entries(manifest: ManifestFile, io: FileIO, *, with_columns: bool = False) -> Iterator[Entry]:
    """The files that a manifest holds, those that it removes left out; with the ids of their columns, if asked."""
    with io.new_input(manifest.manifest_path).open() as stream:
        content, written = _plain(stream.read())
    status, file = (_names(written)[number] for number in (_STATUS, _FILE))
    named = _names(_fields(written)[_FILE]["type"])
    asked = _ASKED | {_COLUMNS} if with_columns else _ASKED
    for entry in cast("Iterator[_Schema]", fastavro.reader(BytesIO(content), _narrowed(written, asked))):
        if entry[status] != ManifestEntryStatus.DELETED:
            yield _read(entry[file], named)


def _plain(content: bytes) -> tuple[bytes, _Schema]:
    """The manifest with days and times as the numbers that they are, and its schema.

    What fastavro makes of them is decided for the whole process, and not here. An attribute that it does not know it
    leaves alone; the name is as long as the other, so nothing else in the file moves.
    """
    told = fastavro.reader(BytesIO(content)).metadata["avro.schema"]
    changed = _OF_TIME.sub(r'"logicalTime"\1', told)
    return content.replace(told.encode(), changed.encode(), 1), json.loads(changed)


def _read(file: Mapping[str, Any], named: Mapping[int, str]) -> Entry:
    def value(asked: int) -> Any:
        return file.get(named.get(asked, ""))

    part = value(_PART)
    return Entry(
        is_data=not value(_CONTENT),  # the first format had no deletes
        path=value(_PATH),
        partition=tuple(value(_PARTITION).values()),
        rows=value(_ROWS),
        # Deletion vectors share a file, and each is a part of it.
        bytes=value(_BYTES) if part is None else part,
        columns=frozenset(one[_KEY] for one in value(_COLUMNS) or ()),
        of_one=value(_ONE) is not None,
    )


def _fields(record: _Schema) -> dict[int, _Schema]:
    return {field["field-id"]: field for field in record["fields"]}


def _names(record: _Schema) -> dict[int, str]:
    return {number: field["name"] for number, field in _fields(record).items()}


def _narrowed(written: _Schema, asked: set[int]) -> _Schema:
    """The schema of an entry with only the fields that are asked for."""
    wanted = [field for number, field in _fields(written).items() if number in asked]
    file = _fields(written)[_FILE]["type"]
    narrow = {**file, "fields": [field for number, field in _fields(file).items() if number in asked]}
    return {**written, "fields": [{**one, "type": narrow} if one["field-id"] == _FILE else one for one in wanted]}
