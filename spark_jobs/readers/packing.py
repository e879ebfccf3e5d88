"""Unpacking gzip and zstd in pieces, as far as they are whole."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from zstandard import ZstdDecompressor, ZstdError

CHUNK_BYTES = 1 << 20


class Damaged(Exception):
    """The packed bytes end too early, or make no sense from here on."""


class _Packing(NamedTuple):
    """A way of packing, and how much of it is unpacked at once: a little of it can hold very much."""

    name: str
    start: Callable[[], Any]
    piece_bytes: int


_PACKINGS = {
    ".gz": _Packing("gzip", lambda: zlib.decompressobj(wbits=31), 16 << 10),  # up to 16 MiB of text
    ".zst": _Packing("zstd", lambda: ZstdDecompressor().decompressobj(), 1 << 10),  # up to 32 MiB of text
}


def unpacked(uri: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes that the file's name says are packed; raises Damaged behind the last one that can be had."""
    packing = next((way for end, way in _PACKINGS.items() if uri.lower().endswith(end)), None)
    return _pieces(_unpacked(packing, chunks), CHUNK_BYTES) if packing else iter(chunks)


def _unpacked(packing: _Packing, chunks: Iterable[bytes]) -> Iterator[bytes]:
    damaged = Damaged(f"the {packing.name} stream is damaged or cut off")
    unpacker = packing.start()
    for piece in _pieces(chunks, packing.piece_bytes):
        rest = piece
        while rest := rest.lstrip(b"\0") if unpacker.eof else rest:  # some writers fill up their last block
            unpacker = packing.start() if unpacker.eof else unpacker
            spare = unpacker.copy() if packing.name == "gzip" else None
            try:
                yield unpacker.decompress(rest)
            except (zlib.error, ZstdError):
                yield from _to_the_damage(spare, rest)
                raise damaged from None
            rest = unpacker.unused_data
    if not unpacker.eof:
        raise damaged


def _pieces(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of one size: what comes before damage must not depend on how the network cut it."""
    rest = bytearray()
    try:
        for chunk in chunks:
            rest += chunk
            while len(rest) >= size:
                yield bytes(rest[:size])
                del rest[:size]
    except Damaged:
        yield bytes(rest)
        raise
    yield bytes(rest)


def _to_the_damage(spare: Any, packed: bytes) -> Iterator[bytes]:
    """Byte by byte, as an error takes with it what was unpacked in the same call; zstd gives whole blocks only."""
    try:
        for place in range(len(packed) if spare else 0):
            yield spare.decompress(packed[place : place + 1])
    except zlib.error:
        return
