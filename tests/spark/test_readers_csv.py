"""CSV: fields exactly as they are, whatever the chunks, and a broken record that costs one line."""

from __future__ import annotations

import csv
import gzip
import json
import random
from itertools import chain, islice, repeat

import pytest

from lakehouse.contracts.fields import Csv
from spark_jobs.readers import delimited
from spark_jobs.readers.lines import Line, lines
from tests.spark.reading import read

SIZES = [1, 2, 3, 5, 8, 1000]
UNCLOSED = "a quote that is never closed"
AFTER = "text after a closing quote"


def objects(text: str, size: int = 1 << 20, given: Csv | None = None) -> list[dict]:
    """The records of a file that has nothing but good ones."""
    found = read("csv", text.encode(), size=size, csv=given)
    assert [(offset, reason) for _, offset, reason in found] == [(number, None) for number in range(len(found))]
    return [json.loads(payload) for payload, _, _ in found]


def marked(text: str, size: int = 1 << 20) -> list[tuple]:
    return read("csv", text.encode(), size=size)


def test_a_payload_is_a_json_object_by_the_header_in_its_order():
    assert read("csv", b"b,a\n1, x \n") == [('{"b":"1","a":" x "}', 0, None)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_quotes_hold_separators_line_ends_and_doubled_quotes(size, end):
    text = end.join(["a,b", f'"1,2","x{end}y{end}{end}z"', '"""","say ""hi"", ok"', ""])
    assert objects(text, size) == [{"a": "1,2", "b": f"x{end}y{end}{end}z"}, {"a": '"', "b": 'say "hi", ok'}]


def test_an_empty_field_is_null_without_quotes_and_a_text_with_them():
    assert objects('a,b,c\n,"",\n"",,""\n') == [{"a": None, "b": "", "c": None}, {"a": "", "b": None, "c": ""}]


def test_a_quote_within_a_field_that_has_none_around_it_is_text():
    assert objects('a,b\n5" pipe,x"y"z\n') == [{"a": '5" pipe', "b": 'x"y"z'}]


def test_texts_stay_as_they_are_in_json():
    text = "\\ / \x00 \x1f \u2028 😀 100% %s"
    assert objects(f"%s,ä%d\n{text},2\n") == [{"%s": text, "ä%d": "2"}]


def test_blank_lines_are_skipped_but_not_within_quotes_nor_when_they_hold_separators():
    assert objects('\n  \na,b\n\n \t\n1,"\n\n"\n\n,\n') == [{"a": "1", "b": "\n\n"}, {"a": None, "b": None}]
    assert objects("a\tb\n\t\n", given=Csv(separator="\t")) == [{"a": None, "b": None}]


@pytest.mark.parametrize("size", SIZES)
def test_a_header_may_have_a_byte_order_mark_and_quotes(size):
    assert objects('\ufeff"a","b ""x""\n,"\n1,2\n', size) == [{"a": "1", 'b "x"\n,': "2"}]


def test_names_that_repeat_get_a_number_that_is_free():
    assert objects("id,id,id_2,id,,\n1,2,3,4,5,6\n") == [
        {"id": "1", "id_3": "2", "id_2": "3", "id_4": "4", "": "5", "_2": "6"}
    ]


def test_many_names_alike_are_numbered_in_one_go():
    names = 50_000
    (found,) = objects(",".join(["x"] * names) + "\n" + ",".join(["1"] * names))
    assert list(found)[-1] == f"x_{names}"


def test_a_header_in_the_contract_makes_the_first_line_a_record():
    assert objects("1,2\n3,4\n", given=Csv(header=("a", "b"))) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_separator_and_quote_can_be_others():
    assert objects("a;b\n'x;''y';\"\n", given=Csv(separator=";", quote="'")) == [{"a": "x;'y", "b": '"'}]
    assert objects("a.b\n|.||.|.1\n", given=Csv(separator=".", quote="|")) == [{"a": ".|.", "b": "1"}]
    assert objects("a§b\n1§2\n", 1, Csv(separator="§")) == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("text", ["", "\n\n", "a,b", "a,b\n", "\ufeff"])
def test_a_file_without_records_has_none(text):
    assert marked(text) == []


def test_a_wrong_number_of_fields_is_raw_and_marked():
    found = marked('a,b,c\n1,2\n1,2,3\n"1","2\n3",4,5\r\n1\n')
    assert found == [
        ("1,2", 0, "2 fields where the header names 3"),
        ('{"a":"1","b":"2","c":"3"}', 1, None),
        ('"1","2\n3",4,5', 2, "4 fields where the header names 3"),
        ("1", 3, "1 field where the header names 3"),
    ]


@pytest.mark.parametrize("size", SIZES)
def test_a_quote_that_is_never_closed_costs_its_own_line(size):
    found = marked('a,b\n1,"x\r\n2,y\n\n3,z', size)
    assert found == [('1,"x', 0, UNCLOSED), ('{"a":"2","b":"y"}', 1, None), ('{"a":"3","b":"z"}', 2, None)]


def test_the_last_line_may_be_the_one_that_does_not_close():
    assert marked('a,b\n1,"x')[-1] == ('1,"x', 0, UNCLOSED)
    assert marked('a,b\n1,"x\n')[-1] == ('1,"x', 0, UNCLOSED)
    assert marked('a,b\n1,"x""')[-1] == ('1,"x""', 0, UNCLOSED)


def test_a_quote_that_is_open_is_given_up_where_the_next_record_has_its_own():
    found = marked('a,b\n1,"x\n2,"y"\n3,"z\nz"\n')
    assert found == [('1,"x', 0, UNCLOSED), ('{"a":"2","b":"y"}', 1, None), ('{"a":"3","b":"z\\nz"}', 2, None)]


def test_a_quote_that_is_open_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_QUOTE", 20)
    found = marked('a,b\n1,"x\n' + "2,y\n" * 10 + '3,"z\nz"\n')
    assert [reason for _, _, reason in found] == [UNCLOSED] + [None] * 11
    assert json.loads(found[-1][0]) == {"a": "3", "b": "z\nz"}


def test_a_quote_that_opens_where_another_was_given_up_is_given_up_as_well(monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_QUOTE", 30)
    found = marked('a,b\n1,"x\ny",b,"""\n' + "2,y\n" * 10 + 'z"\n')
    assert [reason for _, _, reason in found] == [UNCLOSED] * 2 + [None] * 10 + ["1 field where the header names 2"]


def test_one_line_may_be_longer_than_a_quote_over_lines(monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_QUOTE", 20)
    assert objects('a,b\n1,"' + "x" * 50 + '"\n') == [{"a": "1", "b": "x" * 50}]


def test_a_file_with_an_open_quote_is_not_read_to_its_end_before_records_come(monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_QUOTE", 1000)
    endless = chain([Line("a,b", "\n"), Line('1,"x', "\n")], repeat(Line("2,y", "\n")))
    first = list(islice(delimited.records(endless, Csv()), 2))
    assert first == [('1,"x', 0, UNCLOSED), ('{"a":"2","b":"y"}', 1, None)]


@pytest.mark.parametrize("line", ['1,"x"y', '"x" ,2', '1,"say "hi", ok"', '"x""y"z,2'])
def test_text_after_a_closing_quote_is_raw_and_marked(line):
    assert marked(f"a,b\n{line}\n3,4\n") == [(line, 0, AFTER), ('{"a":"3","b":"4"}', 1, None)]


def test_each_line_is_looked_at_twice_at_most(monkeypatch):
    """Every line here closes a quote and opens another, so that each would be tried with all that follow."""
    count = 0
    read_line = delimited._Fields.read

    def counting(self, line: Line) -> str:
        nonlocal count
        count += 1
        return read_line(self, line)

    monkeypatch.setattr(delimited._Fields, "read", counting)
    found = list(delimited.records(lines([b"a,b\n" + b'a",b,"""\n' * 5000]), Csv()))
    assert [reason for _, _, reason in found] == [UNCLOSED] * 5000
    assert count <= 2 * 5000


def test_invalid_utf_8_is_raw_with_escapes_and_marked():
    found = read("csv", b'a,b\n1,\xff\n"2\n\xfe",x\n3,4\n')
    assert found == [
        (r"1,\xff", 0, "invalid UTF-8"),
        ('"2\n\\xfe",x', 1, "invalid UTF-8"),
        ('{"a":"3","b":"4"}', 2, None),
    ]


@pytest.mark.parametrize(("header", "reason"), [(b'a,"b', UNCLOSED), (b'a,"b"c', AFTER), (b"a,\xff", "invalid UTF-8")])
def test_without_a_header_that_can_be_read_everything_is_raw_and_marked(header, reason):
    raw = header.decode(errors="backslashreplace")
    unread = "the header cannot be read"
    assert read("csv", header + b"\n1,2\n3\n") == [(raw, 0, reason), ("1,2", 1, unread), ("3", 2, unread)]


def test_damage_takes_the_record_that_it_cuts_with_it():
    packed = gzip.compress(b'a,b\n1,2\n3,"x\ny')[:-8]
    damage = "the gzip stream is damaged or cut off"
    assert read("csv", packed, "a.gz") == [('{"a":"1","b":"2"}', 0, None), ('3,"x\ny', 1, damage)]
    assert read("csv", gzip.compress(b"a,b")[:-8], "a.gz") == [("a,b", 0, damage)]
    assert read("csv", gzip.compress(b"a,b\n1,2\n")[:-8], "a.gz")[1:] == [("", 1, damage)]


def written(field: str | None, chance: random.Random) -> str:
    needed = field is not None and (field == "" or any(mark in field for mark in ',"\n\r') or field.isspace())
    if field is not None and (needed or chance.random() < 0.3):
        return '"' + field.replace('"', '""') + '"'
    return field or ""


def test_whatever_the_fields_hold_is_read_as_it_was_written():
    chance = random.Random(3)
    texts = ["", None, "a", ",", '"', '""', "\n", "\r\n", "\r", "ä😀", 'x"y', "\n\n", '",\n"']
    for _ in range(300):
        rows = [[chance.choice(texts) for _ in "abc"] for _ in range(4)]
        end = chance.choice(["\n", "\r\n"])
        text = end.join(["a,b,c", *(",".join(written(field, chance) for field in row) for row in rows)])
        size = chance.choice([1, 2, 3, 7, 100])
        assert objects(text, size) == [dict(zip("abc", row, strict=True)) for row in rows], text


def test_a_line_is_read_as_pythons_own_strict_reader_does():
    chance = random.Random(4)
    for _ in range(3000):
        text = "x" + "".join(chance.choices('a,"', k=chance.randrange(12)))
        text = chance.choice([text, text[1:] + ",x"])
        (found,) = read("csv", text.encode(), csv=Csv(header=("f",)))
        try:
            (expected,) = csv.reader([text], strict=True)
        except csv.Error:
            assert found[2] in {AFTER, UNCLOSED}, text
        else:
            cut = next(delimited._cuts(iter([Line(text, "")]), Csv()))
            assert [field or "" for field in cut.fields] == expected, text


def test_what_is_found_in_garbage_does_not_depend_on_the_chunks():
    chance = random.Random(5)
    for _ in range(200):
        data = "".join(chance.choices('a,"\n\r ', weights=[4, 3, 3, 3, 1, 1], k=60)).encode()
        found = read("csv", data)
        assert all(read("csv", data, size=size) == found for size in (1, 2, 5)), data
        assert [offset for _, offset, _ in found] == list(range(len(found)))
