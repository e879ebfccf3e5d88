"""`lakehouse quarantine`, as an operator types it: what it shows, what it decides, and what it refuses."""

from __future__ import annotations

import csv
import getpass
import io
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.naming import quarantine_table
from lakehouse.query import run_sql
from tests.stack.foreign import lines
from tests.stack.harness import LAKEHOUSE
from tests.stack.shop import Shop, in_session
from tests.stack.test_quarantine import DAY, NEXT, NOON, accept, good, things

GREEN = {"id": 30, "colour": "green", "at": NOON}
VIOLET = {"id": 31, "colour": "violet", "at": NOON}
NAMELESS = {"id": "x", "colour": "red", "at": NOON}
LATER = {"id": 40, "colour": "green", "at": NOON}
QUOTED = "colour.accepted' OR 'a' = 'a"


@pytest.fixture(scope="module")
def shop(stack, spark, tmp_path_factory) -> Iterator[Shop]:
    """Two days, of which the contract rejects three records and one."""
    opened = things(tmp_path_factory.mktemp("contracts"), "changes")
    opened.land(DAY, {"part.jsonl": lines(*good(0, 20), GREEN, VIOLET, NAMELESS)})
    opened.land(NEXT, {"part.jsonl": lines(*good(50, 5), LATER)})
    for day in (DAY, NEXT):
        for dataset in opened.datasets:
            opened.run(dataset, day, in_session(spark))
    yield opened
    opened.close()


def typed(shop: Shop, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LAKEHOUSE, "quarantine", *words],
        env={**os.environ, "LAKEHOUSE_CONTRACTS": str(shop.folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def told(shop: Shop, *words: str) -> str:
    done = typed(shop, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(shop: Shop, *words: str) -> list[list[str]]:
    """The lines below the head."""
    return list(csv.reader(io.StringIO(told(shop, *words)), delimiter="\t"))[1:]


def payloads(rows: list[list[str]]) -> list[Any]:
    return [json.loads(row[2]) for row in rows]


def kept(shop: Shop) -> list[tuple[Any, ...]]:
    columns = "_raw_payload, _resolution, _resolved_by, _resolved_why, _resolved_at"
    order = "_interval_start, _source_offset"
    return run_sql(f"SELECT {columns} FROM {quarantine_table(shop.silver)} ORDER BY {order}")[1]


def test_list_counts_what_waits_by_interval_and_reason(shop):
    first, second = f"{DAY}T00:00:00+00:00", f"{NEXT}T00:00:00+00:00"
    assert shown(shop, "list") == [
        [shop.silver, first, "colour.accepted", "2"],
        [shop.silver, first, "thing_id.type", "1"],
        [shop.silver, second, "colour.accepted", "1"],
    ]


def test_show_gives_records_as_they_came_with_the_rules_they_broke(shop):
    rows = shown(shop, "show", shop.silver)
    assert payloads(rows) == [GREEN, VIOLET, NAMELESS, LATER]
    strange = "['colour.accepted']"
    assert [row[1] for row in rows] == [strange, strange, "['thing_id.type']", strange]
    one = ("show", shop.silver, "--reason", "colour.accepted")
    assert payloads(shown(shop, *one, "--limit", "1")) == [GREEN]
    assert payloads(shown(shop, *one, "--interval", str(NEXT))) == [LATER]


def test_a_reason_with_a_quote_in_it_is_that_of_no_record(shop):
    assert shown(shop, "show", shop.silver, "--reason", QUOTED) == []
    done = told(shop, "discard", shop.silver, "--reason", QUOTED, "--why", "a test")
    assert done == "no record is waiting that fits\n"


@pytest.mark.parametrize("words", [("show",), ("replay", "--why", "a test")], ids=lambda words: words[0])
def test_a_dataset_that_is_not_there_is_told_in_one_sentence(words, shop):
    command, *options = words
    done = typed(shop, command, f"silver.thing_{shop.suffix}", *options)
    assert done.returncode == 1
    close = f"no contract for 'silver.thing_{shop.suffix}'; did you mean '{shop.silver}'?"
    assert done.stderr == f"lakehouse: {close}\n"


def test_a_dataset_without_quarantine_is_told_in_one_sentence(shop):
    done = typed(shop, "discard", shop.bronze, "--why", "a test")
    assert done.returncode == 1
    assert done.stderr == f"lakehouse: {shop.bronze} has no quarantine; only silver datasets have one\n"


def test_what_is_replayed_or_given_up_is_marked_with_who_when_and_why(shop):
    accept(shop, "changes", "red, blue, green")
    who, begun = getpass.getuser(), datetime.now(UTC)
    named = ("--reason", "colour.accepted", "--interval", str(DAY), "--why", "Ann's word")
    assert told(shop, "replay", shop.silver, *named) == "1 of 2 records replayed, 1 rejected again\n"
    assert told(shop, "discard", shop.silver, "--why", "nobody's") == "3 records discarded\n"

    found = kept(shop)
    assert [json.loads(row[0]) for row in found] == [GREEN, VIOLET, NAMELESS, LATER]
    assert [row[1:4] for row in found] == [("replayed", who, "Ann's word"), *[("discarded", who, "nobody's")] * 3]
    assert all(begun < row[4] < datetime.now(UTC) for row in found)
    colours = run_sql(f"SELECT colour, count(*) FROM {shop.silver} GROUP BY 1 ORDER BY 1")[1]
    assert colours == [("green", 1), ("red", 25)]
    assert shown(shop, "list", shop.silver) == []
