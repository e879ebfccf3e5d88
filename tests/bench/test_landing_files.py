"""Many small landing files beside the same bytes in few."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pytest

from lakehouse.contracts.model import Bronze
from lakehouse.landing import data_files
from spark_jobs.readers.content import Planned, fetched, in_order
from tests.stack.shop import RunJob, Shop, in_session, interval

FIRST = date(2026, 1, 1)
MANY, FEW = 10_000, 10
ROUNDS = 2
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory) -> Iterator[Shop]:
    opened = Shop.open(tmp_path_factory.mktemp("files"))
    yield opened
    opened.close()


def kilobyte(number: int, round_: int) -> bytes:
    """Seven records, different in every file."""
    records = [{"id": number * 10 + n, "round": round_, "filler": "x" * 105} for n in range(7)]
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def deliver(shop: Shop, day: date, files: list[bytes]) -> None:
    shop.land(day, {f"part-{number:05}.json": data for number, data in enumerate(files)})


def seconds(shop: Shop, day: date, job: RunJob, records: int) -> float:
    begun = time.perf_counter()
    done = shop.run(shop.bronze, day, job)
    taken = time.perf_counter() - begun
    assert done is not None
    assert done.batch.counts["rows_in"] == records
    return taken


def fetching(shop: Shop, day: date) -> float:
    """Seconds to fetch a day's files and do nothing with them, as two readers do at once: no ingest can take less."""
    files = [Planned(f.uri, f.etag, f.bytes) for f in data_files(bronze(shop), interval(day).start)]
    begun = time.perf_counter()
    with ThreadPoolExecutor(2) as readers:
        list(readers.map(lambda part: [content.sha256() for _, content in in_order(fetched, part)], halves(files)))
    return time.perf_counter() - begun


def halves(files: list[Planned]) -> list[list[Planned]]:
    return [files[::2], files[1::2]]


def bronze(shop: Shop) -> Bronze:
    contract = shop.contract(shop.bronze)
    assert isinstance(contract, Bronze)
    return contract


def test_ten_thousand_small_files_beside_the_same_bytes_in_ten(report, spark, shop):
    job = in_session(spark)
    deliver(shop, FIRST, [kilobyte(0, -1)])
    seconds(shop, FIRST, job, 7)
    many, few, alone = [], [], []
    for number in range(ROUNDS):
        pieces = [kilobyte(n, number) for n in range(MANY)]
        # Other bytes than the small files': the same ones would be recognised.
        joined = [b"".join(kilobyte(n, -2 - number) for n in range(part, MANY, FEW)) for part in range(FEW)]
        for offset, files, takes in ((1, joined, few), (2, pieces, many)):
            day = FIRST + timedelta(2 * number + offset)
            deliver(shop, day, files)
            takes.append(seconds(shop, day, job, 7 * MANY))
        alone.append(fetching(shop, day))
    report.add(f"ingest of {FEW} landing files of 1 MB", few)
    report.add(f"ingest of the same bytes in {MANY:,} files", many)
    report.add(f"only fetching the {MANY:,} files, by the same client", alone)
    report.ratio(f"{MANY:,} small files / only fetching them", many, alone)
    report.ratio(f"{MANY:,} small files / the same bytes in {FEW}", many, few, at_most=3)
