"""What tests of readers share: planned files, and the records that are read from one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakehouse.contracts.fields import Csv, Source
from spark_jobs.readers import reader

URI = "s3://landing/orders/a"
Row = tuple[str, int, str | None]


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[place : place + size] for place in range(0, len(data), size))


def source(form: str, csv: Csv | None = None) -> Source:
    return Source(kind="files", path="orders/{interval:%Y-%m-%d}/", format=form, csv=csv or Csv())


def files(*uris: str) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"uri": list(uris), "etag": ["1"] * len(uris), "bytes": [9] * len(uris)})]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict]:
    return [row for batch in batches for row in batch.to_pylist()]


def read(form: str, data: bytes, uri: str = URI, size: int = 1 << 20, csv: Csv | None = None) -> list[Row]:
    """A file's records as (payload, offset, malformed), once its one closing row is found right."""
    *rows, last = rows_of(reader(source(form, csv), lambda *_: chunks(data, size))(files(uri)))
    closing = {"_raw_payload": None, "_source_file": uri, "_source_offset": -1, "_malformed": None}
    assert last == {**closing, "_sha256": hashlib.sha256(data).hexdigest()}
    assert all(row["_source_file"] == uri and row["_sha256"] is None for row in rows)
    return [(row["_raw_payload"], row["_source_offset"], row["_malformed"]) for row in rows]
