"""Cutting landing files into records, on the executors, without holding a file in memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from lakehouse.store import client

CHUNK_BYTES = 1 << 20
BATCH_BYTES = 8 << 20
RECORDS = "_raw_payload string, _source_file string, _source_offset long"
_SCHEMA = pa.schema([("_raw_payload", pa.string()), ("_source_file", pa.string()), ("_source_offset", pa.int64())])


def records(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of each file named in rows of (uri, etag): one per line that is not empty."""
    for batch in batches:
        for row in batch.to_pylist():
            yield from _of_file(row["uri"], row["etag"])


def _of_file(uri: str, etag: str) -> Iterator[pa.RecordBatch]:
    lines: list[str] = []
    offsets: list[int] = []
    size = 0
    for offset, line in enumerate(_lines(_plain(uri, _content(uri, etag)))):
        if line.strip():
            lines.append(line.decode("utf-8", errors="backslashreplace"))
            offsets.append(offset)
            size += len(line)
        if size >= BATCH_BYTES:
            yield _batch(uri, lines, offsets)
            lines, offsets, size = [], [], 0
    if lines:
        yield _batch(uri, lines, offsets)


def _batch(uri: str, lines: list[str], offsets: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(lines), pa.array([uri] * len(lines)), pa.array(offsets)], schema=_SCHEMA
    )


def _content(uri: str, etag: str) -> Iterator[bytes]:
    """The object's bytes; refused by the store when they are no longer those that the run was planned with."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    body: Any = client().get_object(Bucket=bucket, Key=key, IfMatch=etag)["Body"]
    yield from body.iter_chunks(CHUNK_BYTES)


def _plain(uri: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    if not uri.endswith(".gz"):
        yield from chunks
        return
    unpacker = zlib.decompressobj(wbits=31)
    try:
        for chunk in chunks:
            yield unpacker.decompress(chunk)
            while unpacker.eof and unpacker.unused_data:  # several gzip members, one after the other
                rest, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=31)
                yield unpacker.decompress(rest)
    except zlib.error as error:
        raise ValueError(f"{uri} is no gzip file, or a damaged one: {error}; deliver the file again") from None
    yield unpacker.flush()
    if not unpacker.eof:
        raise ValueError(f"{uri} is cut off: its gzip stream has no end; deliver the file again")


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest
