"""Cutting files into records: every line with its place, whatever the chunks, or one sentence about the file."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator

import pytest

from spark_jobs.readers import _lines, _plain


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[place : place + size] for place in range(0, len(data), size))


def lines(*given: bytes) -> list[bytes]:
    return list(_lines(iter(given)))


def plain(uri: str, given: Iterable[bytes]) -> bytes:
    return b"".join(_plain(uri, iter(given)))


def test_a_line_may_lie_across_chunks():
    assert lines(b"on", b"e\ntw", b"", b"o\n", b"three") == [b"one", b"two", b"three"]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_windows_line_ends_are_no_part_of_a_line_wherever_a_chunk_ends(size):
    assert list(_lines(chunks(b"a\r\nb\r\n", size))) == [b"a", b"b"]


def test_an_empty_line_counts_so_that_an_offset_is_a_line_number():
    assert lines(b"a\n\n\r\n  \nb\n") == [b"a", b"", b"", b"  ", b"b"]


def test_the_last_line_needs_no_line_end_and_a_line_end_makes_no_line():
    assert lines(b"a\nb") == lines(b"a\nb\n") == [b"a", b"b"]


def test_an_empty_file_has_no_lines():
    assert lines() == lines(b"") == []


def test_other_separators_do_not_cut_a_line():
    text = "a\u2028b\x0bc\x85d".encode()
    assert lines(text) == [text]


def test_a_file_that_is_not_packed_passes_as_it_is():
    assert plain("s3://landing/a.json", [b"\x1f\x8b not", b" packed"]) == b"\x1f\x8b not packed"


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_gzip_file_is_unpacked_whatever_the_chunks(size):
    assert plain("a.json.gz", chunks(gzip.compress(b"one\ntwo\n"), size)) == b"one\ntwo\n"


@pytest.mark.parametrize("size", [1, 23, 10_000])
def test_a_gzip_file_of_several_members_is_read_to_its_end(size):
    packed = gzip.compress(b"one\n") + gzip.compress(b"") + gzip.compress(b"two\n")
    assert plain("a.gz", chunks(packed, size)) == b"one\ntwo\n"


def test_a_chunk_may_end_where_a_member_ends():
    assert plain("a.gz", [gzip.compress(b"one\n"), gzip.compress(b"two\n")]) == b"one\ntwo\n"


@pytest.mark.parametrize("kept", [0, 5, -9, -1])
def test_a_gzip_file_that_is_cut_off_is_refused_in_one_sentence(kept):
    whole = gzip.compress(b"one\n" * 100)
    with pytest.raises(ValueError, match=r"^s3://landing/a\.gz is cut off: .*deliver the file again$"):
        plain("s3://landing/a.gz", [whole[:kept]])


def test_a_second_member_that_is_cut_off_is_refused_as_well():
    with pytest.raises(ValueError, match=r"^a\.gz is cut off"):
        plain("a.gz", [gzip.compress(b"one\n") + gzip.compress(b"two\n")[:-4]])


@pytest.mark.parametrize("data", [b'{"id": 1}\n', gzip.compress(b"one\n")[:-8] + b"\0" * 8], ids=["plain", "damaged"])
def test_what_is_no_gzip_or_a_damaged_one_is_refused_by_name(data):
    with pytest.raises(ValueError, match=r"^a\.gz is no gzip file, or a damaged one: .*deliver the file again$"):
        plain("a.gz", [data])
