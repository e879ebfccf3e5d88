"""Cleaning a day's records beside DuckDB, and what many bad ones cost in memory."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.naming import quarantine_table
from lakehouse.query import run_sql
from tests.bench.big_shop import FIRST
from tests.stack.jvm import Jvm
from tests.stack.shop import Shop, client_of, in_session

RECORDS = 1_000_000
ROUNDS = 3
DAY = FIRST
HASHED = (
    "count(*), bit_xor(hash(order_id, customer_id, product_id, category, region, quantity, amount, status, "
    "epoch_us(ordered_at), epoch_us(updated_at)))"
)
pytestmark = pytest.mark.timeout(3600)


def lines(day: date, *, good: bool) -> bytes:
    """Half a million orders, each created and then paid; bad ones are for no piece at all."""
    at = int(datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp() * 1000)
    template = (
        '{"op":"%s","ts_ms":%d,"after":{"id":%d,"customer_id":%d,"product_id":%d,"category":"c%d","region":"r%d",'
        '"quantity":%d,"amount":"$%d,%03d.50","status":"%s","ordered_at":"' + f"{day}" + 'T10:00:00Z"}}'
    )
    made = []
    for n in range(RECORDS):
        order, turn = divmod(n, 2)
        what = ("u", at + 1000, "paid") if turn else ("c", at, "new")
        pieces = 1 + order % 5 if good else -1
        whole = (order, order % 100003, order % 1009, order % 20, order % 7, pieces, 1 + order % 9, order % 1000)
        made.append(template % (what[0], what[1], *whole, what[2]))
    return "\n".join(made).encode()


def deliver(shop: Shop, day: date, data: bytes) -> None:
    parts = data.split(b"\n")
    share = -(-len(parts) // 8)
    shop.land(day, {f"part-{n}.json": b"\n".join(parts[n * share : (n + 1) * share]) for n in range(8)})


@pytest.fixture
def shop(spark, tmp_path) -> Iterator[Shop]:
    opened = Shop.open(tmp_path, change_feed="false", late_data="3d\nmost_rejected: 100%")
    yield opened
    opened.close()


def by_duckdb(files: list[Path], target: Path) -> float:
    """The same rules by hand, for files that nothing is wrong with: types, currency, checks, the newest of each key."""
    begun = time.perf_counter()
    with duckdb.connect(config={"threads": os.cpu_count() or 1}) as connection:
        connection.execute(f"""
            COPY (
                WITH read AS (
                    SELECT op, ts_ms, a.* FROM (
                        SELECT op, ts_ms, unnest(after) FROM read_json(
                            {[str(file) for file in files]}, format = 'newline_delimited', columns = {{
                            op: 'VARCHAR', ts_ms: 'BIGINT', after: 'STRUCT(id BIGINT, customer_id BIGINT,
                            product_id BIGINT, category VARCHAR, region VARCHAR, quantity INTEGER, amount VARCHAR,
                            status VARCHAR, ordered_at VARCHAR)'}})) a),
                typed AS (
                    SELECT id AS order_id, customer_id, product_id, category, region, quantity,
                        TRY_CAST(regexp_replace(amount, '[$,]', '', 'g') AS DECIMAL(12,2)) AS amount, status,
                        try_strptime(ordered_at, '%Y-%m-%dT%H:%M:%SZ') AS ordered_at,
                        make_timestamp(ts_ms * 1000) AS updated_at
                    FROM read)
                SELECT * FROM typed
                WHERE order_id IS NOT NULL AND customer_id IS NOT NULL AND product_id IS NOT NULL
                    AND quantity > 0 AND amount >= 0 AND status IN ('new', 'paid', 'shipped', 'cancelled')
                    AND ordered_at IS NOT NULL AND updated_at IS NOT NULL
                QUALIFY row_number() OVER (PARTITION BY order_id ORDER BY updated_at DESC) = 1
            ) TO '{target}' (FORMAT parquet, COMPRESSION zstd)""")
    return time.perf_counter() - begun


def test_cleaning_a_day_beside_duckdb_on_the_same_files(report, spark, shop, tmp_path):
    data = lines(DAY, good=True)
    (tmp_path / "day.json").write_bytes(data)
    deliver(shop, DAY, data)
    job = in_session(spark)
    shop.run(shop.bronze, DAY, job)
    done = shop.run(shop.silver, DAY, job)
    assert done is not None
    result = tmp_path / "result.parquet"
    takes = [by_duckdb([tmp_path / "day.json"], result) for _ in range(ROUNDS)]
    _, ours = run_sql(f"SELECT {HASHED} FROM {shop.silver}")
    theirs = duckdb.sql(f"SELECT {HASHED} FROM '{result}'").fetchall()
    assert ours == theirs
    assert ours[0][0] == RECORDS // 2
    mine = report.add(f"clean of {RECORDS:,} records into an empty table", [done.batch.measures["write_s"]])
    duck = report.add("the same by DuckDB, from local files to one Parquet file", takes)
    report.ratio("clean / the same rules by DuckDB", [mine], [duck])


class Peak:
    """The largest resident memory of a process since this began, and of the clients that ran jobs meanwhile."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.client = 0.0
        Jvm(pid).ask("GC.run")
        Path(f"/proc/{pid}/clear_refs").write_text("5")

    def run(self, job: Any) -> None:
        """A job in a process of its own, as a task has it."""
        with subprocess.Popen(client_of(job.key)) as client:
            # What the kernel says of a child that has ended includes what it was before it became a program of its own.
            while client.poll() is None:
                self.client = max(self.client, _peak(client.pid))
                time.sleep(0.02)
        assert client.returncode == 0

    @property
    def server(self) -> float:
        return _peak(self._pid)


def _peak(pid: int) -> float:
    """MiB; 0 where the process has just ended."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def test_many_bad_records_take_no_more_memory_than_good_ones(report, running, shop):
    """First the good ones, so that the server has grown as far as it does for so many records."""
    peaks = {}
    for number, good in enumerate((True, False)):
        day = DAY + timedelta(number)
        deliver(shop, day, lines(day, good=good))
        peak = peaks[good] = Peak(running.pid("spark"))
        shop.run(shop.bronze, day, peak.run)
        done = shop.run(shop.silver, day, peak.run)
        assert done is not None
        assert done.batch.counts["quarantined"] == (0 if good else RECORDS)
    _, rows = run_sql(f"SELECT count(*) FROM {quarantine_table(shop.silver)}")
    assert rows == [(RECORDS,)]
    measured: dict[str, Callable[[Peak], float]] = {
        "Spark's server": lambda peak: peak.server,
        "a job's client": lambda peak: peak.client,
    }
    for name, of in measured.items():
        good = report.add(f"peak memory of {name}, {RECORDS:,} good records", [of(peaks[True])], "MiB")
        bad = report.add(f"peak memory of {name}, {RECORDS:,} bad records", [of(peaks[False])], "MiB")
        report.ratio(f"memory for bad records / for good ones, {name}", [bad], [good])
