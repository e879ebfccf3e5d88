"""Checks that a table's metadata can answer: manifests are read, data files are not.

An answer is given only where it is certain. Deletes that apply to data files, metrics that a file does not have, and
values that metadata says to be wrong, without saying how many, are left to a scan.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, cast

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import Table
from pyiceberg.types import DateType, NestedField, PrimitiveType, TimestampType, TimestamptzType
from pyiceberg.utils.datetime import days_to_date, micros_to_timestamptz

from lakehouse.contracts.bounds import read_bound
from lakehouse.gates.checks import Check, Found, Missing, NullShare, Outside, Rows

ANSWERABLE = (Rows, NullShare, Missing, Outside)


def answers(found: Table, snapshot_id: int, checks: Sequence[Check]) -> list[Found]:
    """What metadata knows for certain of a version.

    Manifests are as many as the table is large. Where the batch's own rows are looked at anyway, and nothing but them
    is asked about, that is left to the same look.
    """
    asked = [check for check in checks if isinstance(check.measure, ANSWERABLE)]
    if not asked or (len(asked) < len(checks) and all(check.own for check in asked)):
        return []
    files = _live_files(found, snapshot_id)
    if files is None:
        return []
    values = ((check, _value(found, check.measure, files)) for check in asked)
    return [Found(gate=check.gate, value=value) for check, value in values if value is not None]


def _live_files(found: Table, snapshot_id: int) -> list[DataFile] | None:
    """The version's data files; None where deletes apply to some of them."""
    snapshot = found.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return None
    manifests = snapshot.manifests(found.io)
    for manifest in manifests:
        alive = manifest.has_added_files() or manifest.has_existing_files()
        if manifest.content == ManifestContent.DELETES and alive:
            return None
    data = (manifest for manifest in manifests if manifest.content == ManifestContent.DATA)
    return [entry.data_file for one in data for entry in one.fetch_manifest_entry(found.io, discard_deleted=True)]


def _value(found: Table, measure: Any, files: Sequence[DataFile]) -> float | None:
    rows = sum(file.record_count for file in files)
    if isinstance(measure, Rows):
        return rows
    field = found.schema().find_field(measure.column)
    if isinstance(measure, Outside):
        return 0 if _all_inside(field, measure, files) else None
    nulls = _nulls(field, files)
    if nulls is None or (isinstance(measure, NullShare) and not rows):
        return None
    if isinstance(measure, Missing):  # rows before the batch's own may lack it: none at all is the one certain answer
        return 0 if nulls == 0 else None
    return nulls / rows


def _nulls(field: NestedField, files: Iterable[DataFile]) -> int | None:
    counts = [(file.null_value_counts or {}).get(field.field_id) for file in files]
    return None if None in counts else sum(count for count in counts if count is not None)


def _all_inside(field: NestedField, measure: Outside, files: Iterable[DataFile]) -> bool:
    """Whether every file's own bounds lie in the range. A file without values has none, and is inside."""
    low, high = (None if end is None else read_bound(end, measure.type) for end in (measure.lowest, measure.highest))
    for file in files:
        key = field.field_id
        if (file.nan_value_counts or {}).get(key, 0) or (measure.type == "double" and not file.nan_value_counts):
            return False
        if (file.null_value_counts or {}).get(key) == file.record_count:
            continue
        ends = [(bounds or {}).get(key) for bounds in (file.lower_bounds, file.upper_bounds)]
        if None in ends:
            return False
        try:
            first, last = (_read(field, end) for end in ends if end is not None)
        except (struct.error, OverflowError):  # a narrower type than today's, or a time that Python does not know
            return False
        if (low is not None and first < low) or (high is not None and last > high):
            return False
    return True


def _read(field: NestedField, end: bytes) -> Any:
    value: Any = from_bytes(cast("PrimitiveType", field.field_type), end)
    if isinstance(field.field_type, DateType):
        return days_to_date(value)
    if isinstance(field.field_type, TimestamptzType | TimestampType):
        return micros_to_timestamptz(value)
    return value if isinstance(value, Decimal | float) else int(value)
