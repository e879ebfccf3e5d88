"""What a manifest may look like, and what is said of one that is wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from lakehouse.landing import hidden
from lakehouse.landing_bucket import LandingError, Object
from lakehouse.manifest import Listed, read_manifest

PREFIX = "orders/2026-01-01/"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
MD5 = "0cc175b9c0f1b6a831c399e269772661"


def names(text: str, file: str = "manifest.json") -> list[str]:
    found = read_manifest(PREFIX, file, text.encode())
    assert all(key.startswith(PREFIX) for key in found.files)
    return [key.removeprefix(PREFIX) for key in found.files]


@pytest.mark.parametrize(
    "text",
    [
        '{"files": ["a.jsonl", "b.jsonl"]}',
        '["a.jsonl", "b.jsonl"]',
        '\ufeff["a.jsonl", {"name": "b.jsonl"}]',
        '{"files": [{"path": "a.jsonl", "size": 3}, {"key": "b.jsonl", "rows": 7}]}',
        f'["./a.jsonl", "{PREFIX}b.jsonl"]',
        f'[{{"url": "s3://landing/{PREFIX}a.jsonl"}}, "s3a://landing/{PREFIX}b.jsonl"]',
        f'[{{"key": "{PREFIX}a.jsonl"}}, {{"key": "/{PREFIX}b.jsonl"}}]',
        f'{{"entries": [{{"url": "s3://landing/{PREFIX}a.jsonl", "meta": {{"content_length": 3}}}}, "b.jsonl"]}}',
        '["a.jsonl", "manifest.json", "b.jsonl", "a.jsonl"]',
    ],
)
def test_a_manifest_in_json_lists_names_or_objects_as_seen_from_anywhere(text):
    assert names(text) == ["a.jsonl", "b.jsonl"]


def test_a_manifest_in_text_lists_one_name_a_line():
    assert names("a.jsonl\r\n\r\n  part 2/b.jsonl \n", "files.txt") == ["a.jsonl", "part 2/b.jsonl"]


def test_a_manifest_may_list_nothing_if_it_says_so():
    assert names("[]") == names('{"files": []}') == names("[]", "files.txt") == []


@pytest.mark.parametrize("size", ["size", "bytes", "content_length"])
@pytest.mark.parametrize("etag", ["etag", "md5"])
def test_size_and_checksum_go_by_several_names(size, etag):
    listed = json.dumps([{"name": "a", size: 3, etag: MD5}])
    (found,) = read_manifest(PREFIX, "m", listed.encode()).files.values()
    assert (found.size, found.etag) == (3, MD5)


def test_the_size_may_be_one_level_down():
    (found,) = read_manifest(PREFIX, "m", b'[{"url": "a", "meta": {"content_length": 3}}]').files.values()
    assert found.size == 3


@pytest.mark.parametrize(
    ("file", "body", "why"),
    [
        ("manifest.json", b'{"files": ["a.jsonl"', "Expecting ',' delimiter: line 1 column 21 (char 20)"),
        ("manifest.json", b"a.jsonl\nb.jsonl", "Expecting value: line 1 column 1 (char 0)"),
        ("manifest.json", b'{"names": ["a.jsonl"]}', "files: Input should be a valid list"),
        ("manifest.json", b'{"files": [{"rows": 7}]}', "files[0].name: Field required"),
        ("manifest.json", b'["a", {"name": ""}]', "files[1].name: String should have at least 1 character"),
        ("manifest.json", b'["s3://other/orders/2026-01-01/a"]', "s3://other/orders/2026-01-01/a is not in landing/"),
        ("manifest.json", b'["s3://landing/orders/2026-01-02/a"]', "is not in landing/orders/2026-01-01/"),
        ("manifest.json", b'["https://landing/orders/2026-01-01/a"]', "is not in landing/orders/2026-01-01/"),
        ("files.txt", b" \n", "it is empty"),
        ("files.txt", b"\xff\xfe", "can't decode byte 0xff"),
    ],
)
def test_a_wrong_manifest_is_told_in_one_sentence_with_file_and_fix(file, body, why):
    with pytest.raises(LandingError) as told:
        read_manifest(PREFIX, file, body)
    sentence = str(told.value)
    assert sentence.startswith(f"landing/{PREFIX}{file} is no manifest: ")
    assert why in sentence
    assert sentence.endswith(
        '; list the folder\'s files as {"files": [...]} or one name a line, or write [] where there are none'
    )
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("listed", "etag", "there"),
    [
        ({}, MD5, True),
        ({"size": 3}, MD5, True),
        ({"size": "3"}, MD5, True),
        ({"size": 0}, MD5, False),
        ({"md5": MD5.upper()}, MD5, True),
        ({"etag": f'"{MD5}"'}, MD5, True),
        ({"md5": MD5[::-1]}, MD5, False),
        ({"md5": MD5}, f"{MD5[::-1]}-2", True),
        ({"etag": f"{MD5}-2"}, f"{MD5}-2", True),
        ({"etag": f"{MD5}-2"}, f"{MD5}-3", False),
    ],
)
def test_a_file_is_there_when_all_that_is_listed_of_it_and_can_be_compared_agrees(listed, etag, there):
    found = Object("a", etag, 3, NOW)
    assert (Listed.model_validate({"name": "a", **listed}).unlike(found) is None) == there


@pytest.mark.parametrize("name", ["_SUCCESS", ".crc", "_temporary/0/part-0", "year/.hidden", "folder/"])
def test_names_that_are_hidden_by_convention_are_no_data(name):
    assert hidden(name)


@pytest.mark.parametrize("name", ["a.jsonl", "part_1.csv", "2026/day=1/part-0.parquet"])
def test_other_names_are_data(name):
    assert not hidden(name)
