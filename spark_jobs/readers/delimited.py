"""CSV by RFC 4180, line by line: a broken record costs one line, not the rest of the file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from json.encoder import encode_basestring
from typing import Literal, NamedTuple

from lakehouse.contracts.fields import Csv
from spark_jobs.readers.lines import Line
from spark_jobs.readers.record import Record, distinct

LONGEST_QUOTE = 1 << 20
_UNCLOSED = "a quote that is never closed"
_AFTER_QUOTE = "text after a closing quote"
_NO_HEADER = "the header cannot be read"
# Why a record that is there with all that its file has of it could not be cut into fields; as a regular expression.
WHOLE = rf"^(\d+ fields? where the header names \d+|{_AFTER_QUOTE}|{_NO_HEADER})$"


class _Cut(NamedTuple):
    """A record as it is cut out of the file."""

    text: str
    fields: Sequence[str | None] = ()
    malformed: str | None = None


class _Header(NamedTuple):
    """How many names there are, and a JSON object of them that waits for its values."""

    names: int
    template: str


def records(lines: Iterator[Line], csv: Csv) -> Iterator[Record]:
    """Each record as a JSON object of the header's names and its fields; raw and marked where that cannot be."""
    cuts = _cuts(lines, csv)
    first = _Cut("", csv.header) if csv.header else next(cuts, _Cut(""))
    if first.malformed:
        cuts = chain([first], cuts)
    header = None if first.malformed else _header(first.fields)
    for number, cut in enumerate(cuts):
        yield _record(cut, number, header)


def _header(fields: Sequence[str | None]) -> _Header:
    names = (encode_basestring(name).replace("%", "%%") for name in distinct(field or "" for field in fields))
    return _Header(len(fields), "{" + ",".join(f"{name}:%s" for name in names) + "}")


def _record(cut: _Cut, number: int, header: _Header | None) -> Record:
    if cut.malformed or header is None:
        return Record(cut.text, number, cut.malformed or _NO_HEADER)
    if len(cut.fields) != header.names:
        fields = "1 field" if len(cut.fields) == 1 else f"{len(cut.fields)} fields"
        return Record(cut.text, number, f"{fields} where the header names {header.names}")
    values = ["null" if field is None else encode_basestring(field) for field in cut.fields]
    return Record(header.template % tuple(values), number)


def _cuts(lines: Iterator[Line], csv: Csv) -> Iterator[_Cut]:
    ahead: deque[Line] = deque()
    while (line := ahead.popleft() if ahead else next(lines, None)) is not None:
        if not line.whole:
            yield _Cut(line.text, malformed=line.malformed)
        elif csv.quote in line.text:
            yield _with_quotes(line, ahead, lines, csv)
        elif csv.separator in line.text or line.text.strip():
            fields = [field or None for field in line.text.split(csv.separator)]
            yield _Cut(line.text, fields, line.malformed)


def _with_quotes(line: Line, ahead: deque[Line], lines: Iterator[Line], csv: Csv) -> _Cut:
    record = _Fields(csv)
    match record.read(line):
        case "closed":
            return _Cut(line.text, record.fields, line.malformed)
        case "broken":
            return _Cut(line.text, malformed=line.malformed or _AFTER_QUOTE)
    # A quote that opened before the lines ahead did not close in them, so neither does one that opens among them.
    # Not to look again is what keeps a file full of such quotes from being read over and over.
    if not ahead and (cut := _over_lines(line, record, ahead, lines)):
        ahead.clear()
        return cut
    return _Cut(line.text, malformed=line.malformed or _UNCLOSED)


def _over_lines(first: Line, record: _Fields, ahead: deque[Line], lines: Iterator[Line]) -> _Cut | None:
    """The record that goes on in the next lines, which are then ahead; None where its quote does not close."""
    size = len(first.text)
    for line in lines:
        ahead.append(line)
        size += len(line.text)
        if size > LONGEST_QUOTE:
            return None
        state = record.read(line) if line.whole else "cut off"
        if state == "broken":
            return None
        if state != "open":
            parts = [first, *ahead]
            text = "".join(part.text + part.end for part in parts).removesuffix(line.end)
            return _Cut(text, record.fields, next((part.malformed for part in parts if part.malformed), None))
    return None


class _Fields:
    """The fields of one record, read line by line."""

    def __init__(self, csv: Csv) -> None:
        self.fields: list[str | None] = []
        self._separator = csv.separator
        self._quote = csv.quote
        self._open: list[str] = []  # the pieces so far of a field whose quote is open

    def read(self, line: Line) -> Literal["closed", "open", "broken"]:
        """Read on, and tell whether the record ends with this line."""
        for part in line.text.split(self._separator):
            if not self._open and not part.startswith(self._quote):
                self.fields.append(part or None)
                continue
            piece = part if self._open else part[1:]
            _, closing, after = piece.replace(self._quote * 2, "").partition(self._quote)
            if after:
                return "broken"
            if closing:
                self._close(piece[:-1])
            else:
                self._open += [piece, self._separator]
        if self._open:
            self._open[-1] = line.end
            return "open"
        return "closed"

    def _close(self, piece: str) -> None:
        self.fields.append("".join([*self._open, piece]).replace(self._quote * 2, self._quote))
        self._open.clear()
