"""Files of lines: a record a line that is not blank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from spark_jobs.readers import record
from spark_jobs.readers.packing import Damaged
from spark_jobs.readers.record import INVALID, TOO_LONG, Record

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = " \t\r\n\v\f"


class Line(NamedTuple):
    """A line's text without its end, and why it is malformed if it is; some lines are not whole."""

    text: str
    end: str
    malformed: str | None = None
    whole: bool = True


def records(lines: Iterable[Line]) -> Iterator[Record]:
    """A record a line that is not blank, at the line's number."""
    for number, line in enumerate(lines):
        if line.malformed or line.text.strip(_BLANK):
            yield Record(line.text, number, line.malformed)


def lines(chunks: Iterable[bytes]) -> Iterator[Line]:
    """The lines of a text, whatever the chunks; at damage, what is left of the last one."""
    rest, mark = bytearray(), _BYTE_ORDER_MARK
    try:
        for chunk in chunks:
            end, newline, more = chunk.partition(b"\n")
            _keep(rest, end)
            if newline:
                yield _line(bytes(rest).removeprefix(mark), "\n")
                block, newline, start = more.rpartition(b"\n")
                if newline:
                    yield from _whole(block)
                rest, mark = bytearray(start), b""
    except Damaged as damage:
        yield _line(bytes(rest).removeprefix(mark), "", str(damage))
    else:
        if rest:
            yield _line(bytes(rest).removeprefix(mark), "")


def _keep(rest: bytearray, more: bytes) -> None:
    """As much as is kept of a line, and two bytes that tell whether more than a line end went missing."""
    rest += more[: max(0, record.LONGEST + 2 - len(rest))]


def _whole(block: bytes) -> Iterator[Line]:
    """Whole lines, decoded together where they can be: one by one takes much longer."""
    try:
        texts = block.decode().split("\n")
    except UnicodeDecodeError:
        return (_line(content, "\n") for content in block.split(b"\n"))
    return (Line(text[:-1], "\r\n") if text[-1:] == "\r" else Line(text, "\n") for text in texts)


def _line(content: bytes, end: str, damage: str | None = None) -> Line:
    text = content.removesuffix(b"\r")
    if len(text) > record.LONGEST:
        return Line(_decoded(text[: record.LONGEST]), "", TOO_LONG, whole=False)
    if damage:
        return Line(_decoded(text), "", damage, whole=False)
    end = "\r" + end if len(text) < len(content) else end
    try:
        return Line(text.decode(), end)
    except UnicodeDecodeError:
        return Line(_decoded(text), end, INVALID)


def _decoded(text: bytes) -> str:
    return text.decode(errors="backslashreplace")
