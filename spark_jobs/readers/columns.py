"""Parquet and Avro: files that know their types, read from a temporary file on disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile
from typing import IO, Any

from spark_jobs.readers import avro, parquet
from spark_jobs.readers.packing import Damaged
from spark_jobs.readers.record import INVALID, Record
from spark_jobs.readers.values import encoded

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def records(chunks: Iterable[bytes], kind: str) -> Iterator[Record]:
    """Each row as a JSON object at its number; at damage, one malformed record behind the rows before it."""
    read, name = _KINDS[kind]
    offset = 0
    with TemporaryFile() as file:
        damage = _filled(file, chunks)
        try:
            for row in read(_mapped(file)):
                yield _record(encoded(row), offset)
                offset += 1
        except MemoryError:
            raise  # is not the file's fault
        except Exception as error:  # noqa: BLE001  # damage makes a parser raise anything; the store is done with
            damage = damage or f"not {name}, or a damaged one: {_cause(error)}"
        if damage:
            yield Record("", offset, damage)


def _filled(file: IO[bytes], chunks: Iterable[bytes]) -> str | None:
    """Write the chunks to the file; what is wrong with them, if anything is."""
    try:
        for chunk in chunks:
            file.write(chunk)
    except Damaged as damage:
        return str(damage)
    finally:
        file.flush()
    return None


def _mapped(file: IO[bytes]) -> mmap:
    """The file as memory that is read from disk: asked for more than there is, it gives what there is."""
    if not file.tell():
        raise ValueError("it is empty")
    return mmap(file.fileno(), 0, access=ACCESS_READ)


def _record(payload: str, offset: int) -> Record:
    try:
        payload.encode()
    except UnicodeEncodeError:
        raw = payload.encode(errors="surrogateescape")
        return Record(raw.decode(errors="backslashreplace"), offset, INVALID)
    return Record(payload, offset)


def _cause(error: Exception) -> str:
    """The first line of what the parser says, the same each time."""
    text = str(error).encode(errors="backslashreplace").decode()
    said = _ADDRESS.sub("", text.strip().split("\n", 1)[0])[:200]
    return said if " " in said else f"{type(error).__name__} {said}".strip()


_KINDS: dict[str, tuple[Callable[[mmap], Iterator[Any]], str]] = {
    "parquet": (parquet.rows, "a Parquet file"),
    "avro": (avro.rows, "an Avro file"),
}
