"""Files of lines: every line with its place, whatever the chunks, and none that fills the memory."""

from __future__ import annotations

import tracemalloc

import pytest

from spark_jobs.readers import lines as reading
from spark_jobs.readers import record
from tests.spark.reading import chunks, read

SIZES = [1, 2, 3, 4, 5, 7, 100]


def lines(*given: bytes) -> list[str]:
    return [line.text for line in reading.lines(iter(given))]


def test_a_line_may_lie_across_chunks():
    assert lines(b"on", b"e\ntw", b"", b"o\n", b"three") == ["one", "two", "three"]


@pytest.mark.parametrize("size", SIZES)
def test_windows_line_ends_are_no_part_of_a_line_wherever_a_chunk_ends(size):
    found = list(reading.lines(chunks(b"a\r\nb\rc\r\nd\ne\r\n", size)))
    assert [(line.text, line.end) for line in found] == [("a", "\r\n"), ("b\rc", "\r\n"), ("d", "\n"), ("e", "\r\n")]


@pytest.mark.parametrize("form", ["json_lines", "text"])
def test_an_offset_is_a_line_number_and_blank_lines_are_no_records(form):
    found = read(form, b"a\n\n\r\n \t \n b \n\x0b\x0c\n\xc2\xa0\n")
    assert found == [("a", 0, None), (" b ", 4, None), ("\xa0", 6, None)]


def test_the_last_line_needs_no_line_end_and_a_line_end_makes_no_line():
    assert lines(b"a\nb") == lines(b"a\nb\n") == ["a", "b"]


def test_an_empty_file_has_no_lines():
    assert lines() == lines(b"") == []


def test_other_separators_do_not_cut_a_line():
    text = "a\u2028b\x0bc\x85d"
    assert lines(text.encode()) == [text]


@pytest.mark.parametrize("size", SIZES)
def test_a_byte_order_mark_is_no_part_of_the_first_line_but_of_any_other(size):
    assert read("text", "\ufeffa\n\ufeffb\n".encode(), size=size) == [("a", 0, None), ("\ufeffb", 1, None)]
    assert read("text", "\ufeffa".encode(), size=size) == [("a", 0, None)]
    assert read("text", "\ufeff".encode(), size=size) == []


@pytest.mark.parametrize("size", SIZES)
def test_invalid_utf_8_is_kept_with_escapes_and_marked_and_costs_no_other_line(size):
    found = read("json_lines", "ä\n".encode() + b"a\xffb\xc3\n" + "😀\n".encode() + b"\xe2\x82", size=size)
    assert found == [
        ("ä", 0, None),
        (r"a\xffb\xc3", 1, "invalid UTF-8"),
        ("😀", 2, None),
        (r"\xe2\x82", 3, "invalid UTF-8"),
    ]


def test_nul_is_kept_and_not_marked():
    assert read("json_lines", b'{"a": "\0"}\n\0') == [('{"a": "\0"}', 0, None), ("\0", 1, None)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_that_is_too_long_is_cut_and_marked_and_its_rest_is_skipped(size, end, monkeypatch):
    monkeypatch.setattr(record, "LONGEST", 4)
    data = end.join([b"abcd", b"abcdX", b"abcd\rX", b"abcdXYZXYZ", b"ef", b"ghijK"])
    found = read("text", data, size=size)
    long = "longer than 64 MiB"
    assert [(text, reason) for text, _, reason in found] == [
        ("abcd", None), ("abcd", long), ("abcd", long), ("abcd", long), ("ef", None), ("ghij", long)
    ]  # fmt: skip
    assert [offset for _, offset, _ in found] == [0, 1, 2, 3, 4, 5]


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(record, "LONGEST", 1 << 20)
    tracemalloc.start()
    (line,) = reading.lines(b"x" * (1 << 20) for _ in range(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(line.text), line.whole) == (1 << 20, False)
    assert peak < 10 << 20


def test_a_long_line_of_small_chunks_is_not_copied_for_each():
    """Some 2 TiB would be, which nobody would wait for."""
    (line,) = reading.lines(b"x" * 16 for _ in range(1 << 19))
    assert len(line.text) == 8 << 20
