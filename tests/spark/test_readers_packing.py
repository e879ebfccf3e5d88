"""Packed files: unpacked whatever the chunks and members, up to the damage if there is any, in bounded memory."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
import zlib

import pytest
import zstandard

from spark_jobs.readers.packing import Damaged, unpacked
from tests.spark.reading import read

TEXT = b"".join(b'{"id": %d, "name": "number %d"}\n' % (number, number * number) for number in range(40))
PLAIN = [(line.decode(), number, None) for number, line in enumerate(TEXT.splitlines())]
GZIP = "the gzip stream is damaged or cut off"
ZSTD = "the zstd stream is damaged or cut off"
SIZES = [1, 7, 1000, 1 << 20]


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACKERS = pytest.mark.parametrize(("end", "pack"), [(".gz", gzip.compress), (".zst", zst)])


def test_a_file_that_is_not_packed_passes_as_it_is():
    assert read("text", b"\x1f\x8b not packed", "s3://landing/gz", size=3) == [
        ("\x1f\\x8b not packed", 0, "invalid UTF-8")
    ]


@PACKERS
@pytest.mark.parametrize("size", SIZES)
def test_a_packed_file_is_read_whatever_the_chunks(end, pack, size):
    assert read("json_lines", pack(TEXT), f"s3://landing/a.json{end}", size) == PLAIN
    assert read("json_lines", pack(TEXT), f"s3://landing/A.JSON{end.upper()}", size) == PLAIN


@PACKERS
@pytest.mark.parametrize("size", SIZES)
def test_several_members_one_after_the_other_are_one_file(end, pack, size):
    packed = pack(TEXT[:100]) + pack(b"") + pack(TEXT[100:])
    assert read("json_lines", packed, f"a{end}", size) == PLAIN


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_of_zstd_that_holds_no_data_is_skipped(size):
    skippable = struct.pack("<II", 0x184D2A50, 5) + b"hello"
    assert read("json_lines", skippable + zst(TEXT), "a.zst", size) == PLAIN


@PACKERS
@pytest.mark.parametrize("size", SIZES)
def test_zeros_behind_the_data_are_filling(end, pack, size):
    assert read("json_lines", pack(TEXT) + bytes(2000), f"a{end}", size) == PLAIN


@pytest.mark.parametrize("size", SIZES)
def test_a_gzip_file_cut_off_anywhere_gives_what_it_holds_and_one_malformed_record(size):
    packed = gzip.compress(TEXT)
    for kept in range(len(packed)):
        *lines, rest = zlib.decompressobj(31).decompress(packed[:kept]).decode().split("\n")
        assert read("json_lines", packed[:kept], "a.gz", size) == [*PLAIN[: len(lines)], (rest, len(lines), GZIP)]


@pytest.mark.parametrize("size", SIZES)
def test_a_second_member_that_is_cut_off_is_damage_as_well(size):
    packed = gzip.compress(b"one\n") + gzip.compress(b"two\n")[:-4]
    assert read("text", packed, "a.gz", size) == [("one", 0, None), ("two", 1, None), ("", 2, GZIP)]


@pytest.mark.parametrize("size", SIZES)
def test_a_zstd_file_cut_off_anywhere_gives_a_beginning_and_one_malformed_record(size):
    packed = zst(TEXT)
    for kept in range(len(packed)):
        *lines, (rest, place, reason) = read("json_lines", packed[:kept], "a.zst", size)
        assert (lines, place, reason) == (PLAIN[: len(lines)], len(lines), ZSTD)
        assert not rest


@PACKERS
def test_a_large_file_that_is_cut_off_gives_its_beginning(end, pack):
    numbers = random.Random(1).sample(range(10**9), 100_000)
    packed = pack("".join(f"{number}\n" for number in numbers).encode())
    *records, (_, place, _) = read("text", packed[: len(packed) // 2], f"a{end}", 4096)
    assert 30_000 < len(records) == place
    assert [int(text) for text, _, _ in records] == numbers[: len(records)]


@pytest.mark.parametrize("size", SIZES)
def test_a_wrong_sum_at_the_end_of_gzip_costs_no_record(size):
    packed = gzip.compress(TEXT)[:-8] + bytes(8)
    assert read("json_lines", packed, "a.gz", size) == [*PLAIN, ("", len(PLAIN), GZIP)]


@pytest.mark.parametrize("size", SIZES)
def test_a_wrong_sum_at_the_end_of_zstd_is_damage(size):
    assert read("json_lines", zst(TEXT)[:-4] + bytes(4), "a.zst", size)[-1] == ("", 0, ZSTD)


@PACKERS
@pytest.mark.parametrize("data", [b"", b'{"id": 1}\n', bytes(30)], ids=["empty", "not packed", "zeros"])
def test_what_was_never_packed_is_one_malformed_record(end, pack, data):
    reason = GZIP if end == ".gz" else ZSTD
    assert read("json_lines", data, f"a{end}") == [("", 0, reason)]


@PACKERS
def test_a_sum_covers_the_bytes_behind_the_damage_as_well(end, pack):
    """The sum itself is compared wherever a file is read here; this one is not unpacked beyond its beginning."""
    assert len(read("json_lines", b"x" * 100_000, f"a{end}", 100)) == 1


@PACKERS
def test_garbage_behind_the_data_is_damage_after_all_records(end, pack):
    reason = GZIP if end == ".gz" else ZSTD
    assert read("json_lines", pack(TEXT) + b"garbage", f"a{end}") == [*PLAIN, ("", len(PLAIN), reason)]


@PACKERS
def test_what_comes_before_damage_does_not_depend_on_the_chunks(end, pack):
    packed = bytearray(pack(random.Random(2).randbytes(20_000).hex().encode()))
    packed[9000] ^= 255
    assert len({tuple(read("text", bytes(packed), f"a{end}", size)) for size in (1, 999, 1024, 5000, 1 << 20)}) == 1


@PACKERS
def test_a_little_that_holds_very_much_does_not_fill_the_memory(end, pack):
    packed = pack(bytes(150 << 20))
    tracemalloc.start()
    size = max(len(piece) for piece in unpacked(f"a{end}", [packed]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size <= 1 << 20
    assert peak < 100 << 20


def test_damage_is_raised_behind_the_last_byte_that_can_be_had():
    found = unpacked("a.gz", [gzip.compress(b"some text")[:-3]])
    assert next(found) == b"some text"
    with pytest.raises(Damaged):
        next(found)
