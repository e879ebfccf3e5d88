"""Whole tables: what a snapshot lacks goes, unless it may be in what could not be read of it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from lakehouse.ledger import leases
from lakehouse.steps import GateFailed
from tests.stack.foreign import DAY, Source, lines

NEXT = DAY + timedelta(1)
COLUMNS = """
  id:   {type: bigint, required: true, from: id}
  name: {type: string, required: true, from: name}
"""


@pytest.fixture
def things(stack, spark, tmp_path) -> Iterator[Source]:
    """A table of a hundred things."""
    opened = Source(tmp_path, "json_lines, recognise: interval", COLUMNS, "delivers: snapshot\nkey: [id]")
    opened.run(spark, {"all.json": lines(*all_of(range(100)))})
    yield opened
    opened.shop.close()


def all_of(keys: Iterable[int], name: str = "a") -> list[dict[str, Any]]:
    return [{"id": key, "name": name} for key in keys]


def cut_off(*records: Any, short: int = 5) -> dict[str, bytes]:
    """A packed file that ends so many bytes before the end of its last line."""
    packer = zlib.compressobj(wbits=31)
    return {"all.json.gz": packer.compress(lines(*records)[:-short]) + packer.flush(zlib.Z_SYNC_FLUSH)}


def ids(source: Source) -> list[int]:
    return [row[0] for row in source.rows("id")]


DAMAGED = {
    "a file that is cut off": cut_off(*all_of(range(71), "b")),
    "a file that is cut off behind a record": cut_off(*all_of(range(71), "b"), short=1),
    "a line that is no record": {"all.json": lines(*all_of(range(70), "b"), b'{"id": 70\n')},
    "a key of another type": {"all.json": lines(*all_of(range(70), "b"), {"id": "x", "name": "b"})},
    "a key that is missing": {"all.json": lines(*all_of(range(70), "b"), {"name": "b"})},
}


@pytest.mark.parametrize("files", DAMAGED.values(), ids=DAMAGED)
def test_no_row_goes_while_a_record_may_be_that_of_any(things, spark, files):
    counts = things.run(spark, files, NEXT)
    assert (counts["updated"], counts["vanished"], counts["quarantined"]) == (70, 0, 1)
    assert counts["spared"] in (29, 30)
    assert ids(things) == list(range(100))
    things.run(spark, {"all.json.gz": gzip.compress(lines(*all_of(range(70), "b")))}, NEXT + timedelta(1))
    assert ids(things) == list(range(70)), "the next whole snapshot takes them away"


def test_a_row_whose_own_record_is_rejected_stays_and_the_others_go(things, spark):
    counts = things.run(spark, {"all.json": lines(*all_of(range(98)), {"id": 98, "name": None})}, NEXT)
    assert counts["vanished"] == 1
    assert "spared" not in counts
    assert ids(things) == list(range(99))


def test_a_damaged_file_that_changes_no_key_spares_none(things, spark):
    counts = things.run(spark, {"all.json": lines(*all_of(range(100)), b"oops\n")}, NEXT)
    assert (counts["vanished"], counts["unchanged"]) == (0, 100)
    assert "spared" not in counts


def test_a_snapshot_that_lacks_too_much_is_refused_damaged_or_not(things, spark):
    with pytest.raises(GateFailed, match=r"lacks 51 of the table's 100 rows, more than most_deleted: 50%"):
        things.run(spark, cut_off(*all_of(range(50))), NEXT)
    assert leases.holder(things.shop.silver) is None
    assert ids(things) == list(range(100))


def test_as_many_as_a_contract_allows_may_be_missing_and_rejected(things, spark):
    things.mended("most_rejected: 100%", "most_rejected: 29%\nmost_deleted: 29%")
    counts = things.run(spark, {"all.json": lines(*all_of(range(71)), *({"id": n} for n in range(200, 229)))}, NEXT)
    assert (counts["rows_in"], counts["quarantined"], counts["vanished"]) == (100, 29, 29)
    with pytest.raises(GateFailed, match="30 of 101 records are rejected, more than most_rejected: 29%"):
        things.run(spark, {"all.json": lines(*all_of(range(71)), *({"id": n} for n in range(200, 230)))}, NEXT)
