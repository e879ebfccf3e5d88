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

Reader = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def reader(source: Source, fetch: Fetch = fetched) -> Reader:
    """A function for `mapInArrow`: rows of FILES in, each file's records and its closing row out."""
    return partial(_read, source, fetch)


def _read(source: Source, fetch: Fetch, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    files = (Planned(**row) for batch in batches for row in batch.to_pylist())
    yield from _joined(rows for uri, content in in_order(fetch, files) for rows in _file(source, uri, content))


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: each costs Spark as much as many rows do, and a small file has few."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        more = batch.nbytes + batch.num_rows * ROW_BYTES
        if held and size + more > BATCH_BYTES:
            yield pa.concat_batches(held)
            held, size = [], 0
        held.append(batch)
        size += more
    if held:
        yield pa.concat_batches(held)


def _file(source: Source, uri: str, content: Content) -> Iterator[pa.RecordBatch]:
    rows = _Rows(uri)
    for record in _records(source, unpacked(uri, content)):
        rows.add(*bounded(record))
        if rows.size >= BATCH_BYTES:
            yield rows.batch()
            rows = _Rows(uri)
    rows.add(None, CLOSING_OFFSET, None)
    yield rows.batch(content.sha256())


def _records(source: Source, chunks: Iterator[bytes]) -> Iterator[Record]:
    match source.format:
        case "csv":
            return delimited.records(lines.lines(chunks), source.csv)
        case "parquet" | "avro":
            return columns.records(chunks, source.format)
        case _:
            return lines.records(lines.lines(chunks))


class _Rows:
    """Rows of one file on their way into a batch, by column."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._payloads: list[str | None] = []
        self._offsets: list[int] = []
        self._reasons: list[str | None] = []
        self.size = 0

    def add(self, payload: str | None, offset: int, malformed: str | None) -> None:
        self._payloads.append(payload)
        self._offsets.append(offset)
        self._reasons.append(malformed)
        self.size += len(payload or "") + ROW_BYTES

    def batch(self, sha256: str | None = None) -> pa.RecordBatch:
        """The rows, the last one with the file's sum where that is given."""
        rows = len(self._payloads)
        columns = (
            self._payloads,
            pa.repeat(self._uri, rows),
            self._offsets,
            self._reasons,
            [*[None] * (rows - 1), sha256],
        )
        return pa.RecordBatch.from_pydict(dict(zip(_SCHEMA.names, columns, strict=True)), schema=_SCHEMA)
