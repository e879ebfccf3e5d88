"""Cutting landing files into records, on the executors, without holding a file in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa

from lakehouse.contracts.fields import Source
from spark_jobs.readers import columns, delimited, lines
from spark_jobs.readers.content import Content, Fetch, Planned, fetched, in_order
from spark_jobs.readers.packing import unpacked
from spark_jobs.readers.record import Record, bounded

FILES = "uri string, etag string, bytes long"
RECORDS = "_raw_payload string, _source_file string, _source_offset long, _malformed string, _sha256 string"
BATCH_BYTES = 8 << 20
ROW_BYTES = 200  # what a row costs beside its text: many short ones must not fill the memory either
CLOSING_OFFSET = -1
_SCHEMA = pa.schema(
    [
        ("_raw_payload", pa.string()),
        ("_source_file", pa.string()),
        ("_source_offset", pa.int64()),
        ("_malformed", pa.string()),
        ("_sha256", pa.string()),
    ]
)

Row = tuple[str | None, str, int, str | None, str | None]
Reader = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def reader(source: Source, fetch: Fetch = fetched) -> Reader:
    """A function for `mapInArrow`: rows of FILES in, each file's records and its closing row out."""
    return partial(_read, source, fetch)


def _read(source: Source, fetch: Fetch, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    files = (Planned(**row) for batch in batches for row in batch.to_pylist())
    held = _Batch()
    for row in _rows(source, in_order(fetch, files)):
        held.add(row)
        if held.size >= BATCH_BYTES:
            yield held.taken()
            held = _Batch()
    if held.size:
        yield held.taken()


def _rows(source: Source, files: Iterable[tuple[str, Content]]) -> Iterator[Row]:
    """Each file's records, then its closing row with the sum of its bytes."""
    for uri, content in files:
        for record in _records(source, unpacked(uri, content)):
            payload, offset, malformed = bounded(record)
            yield payload, uri, offset, malformed, None
        yield None, uri, CLOSING_OFFSET, None, content.sha256()


def _records(source: Source, chunks: Iterator[bytes]) -> Iterator[Record]:
    match source.format:
        case "csv":
            return delimited.records(lines.lines(chunks), source.csv)
        case "parquet" | "avro":
            return columns.records(chunks, source.format)
        case _:
            return lines.records(lines.lines(chunks))


class _Batch:
    """Rows on their way to Spark, of as many files as fit: a batch costs as much as many rows do."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self.size = 0

    def add(self, row: Row) -> None:
        self._rows.append(row)
        self.size += len(row[0] or "") + ROW_BYTES

    def taken(self) -> pa.RecordBatch:
        columns = zip(*self._rows, strict=True)
        return pa.RecordBatch.from_pydict(dict(zip(_SCHEMA.names, columns, strict=True)), schema=_SCHEMA)
