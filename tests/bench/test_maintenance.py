"""Maintenance measured: health of a large table, and compaction beside what the machine can do with the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import httpx
import pyarrow.parquet as pq
import pytest
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyspark.sql import DataFrame

from lakehouse.catalog import catalog, catalog_of
from lakehouse.health import health
from lakehouse.maintenance.reachable import listed
from lakehouse.naming import table_sql
from lakehouse.query import run_sql
from lakehouse.settings import ROOT, settings
from lakehouse.store import client
from tests.bench.counting import counted
from tests.stack.shop import RunJob, in_session
from tests.stack.tables import head, loaded
from tests.stack.worn import DAYS, Worn, keep

FEW, MANY = 10_000, 100_000
FILES, ROWS_A_FILE = 500, 24_000
OBJECTS, EVENTS = 20_000, 500
ROUNDS = 3
pytestmark = pytest.mark.timeout(3600)


def test_health_of_a_hundred_thousand_files_beside_ten_thousand(report, tmp_path):
    found = {}
    for files in (FEW, MANY):
        (tmp_path / str(files)).mkdir()
        command = [sys.executable, "-m", "tests.bench.health_of_many", str(tmp_path / str(files)), str(files)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        found[files] = json.loads(done.stdout.splitlines()[-1])
        report.add(f"health of {files:,} files", [found[files]["seconds"]])
        report.add(f"health of {files:,} files, memory", [found[files]["mib"]], "MiB")
    many, few = [found[MANY]["seconds"]], [found[FEW]["seconds"]]
    report.ratio(f"health of {MANY:,} files / of {FEW:,}", many, few, at_most=MANY // FEW)


@pytest.fixture(scope="module")
def many_files(spark) -> Iterator[Worn]:
    """About 650 MB in 500 files, as that many small writes leave them."""
    made = Worn.made(spark)
    columns = ", ".join(f"xxhash64(id, {n}) AS c{n}" for n in range(6))
    spark.sql(f"ALTER TABLE {table_sql(made.name)} ADD COLUMNS ({', '.join(f'c{n} BIGINT' for n in range(6))})")
    rows = spark.sql(
        f"SELECT id, TIMESTAMP '2026-01-01 12:00:00' AS at, id * 3 AS amount, {columns} "
        f"FROM range(0, {FILES * ROWS_A_FILE}, 1, {FILES})"
    )
    scattered(rows, made)
    yield made
    made.drop()


def scattered(rows: DataFrame, into: Worn) -> None:
    """A file for each of Spark's tasks: by default Iceberg would gather the rows of a day in one."""
    rows.writeTo(table_sql(into.name)).option("distribution-mode", "none").append()


def objects(name: str) -> list[str]:
    return [path.removeprefix("s3://lake/") for path in listed(loaded(name).location()) if path.endswith(".parquet")]


def side_by_side(keys: list[str], work: Callable[[bytes], bytes]) -> tuple[float, int]:
    """Seconds and bytes of taking each object, doing something with it, and putting it elsewhere, on two threads."""

    def one(key: str) -> int:
        body = client().get_object(Bucket="lake", Key=key)["Body"].read()
        client().put_object(Bucket="lake", Key=f"_bench/{key}", Body=work(body))
        return len(body)

    begun = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        size = sum(pool.map(one, keys))
    taken = time.perf_counter() - begun
    for key in keys:  # not before: MinIO removes a folder that is empty, also while somebody puts something into it
        client().delete_object(Bucket="lake", Key=f"_bench/{key}")
    return taken, size


def encoded_again(body: bytes) -> bytes:
    out = BytesIO()
    pq.write_table(pq.read_table(BytesIO(body)), out, compression="zstd")
    return out.getvalue()


def packed(worn: Worn, run: RunJob, base: int) -> float:
    """Seconds to pack the files of that version once more."""
    main = SetSnapshotRefUpdate(**{"ref-name": "main", "type": "branch", "snapshot-id": base})
    catalog().commit_table(loaded(worn.name), (), (main,))
    begun = time.perf_counter()
    keep(worn.contract(target_file_mb=128, slice_mb=2_048), run, "rewrite_data_files")
    taken = time.perf_counter() - begun
    after = health(loaded(worn.name))
    assert after.rows == FILES * ROWS_A_FILE
    assert after.files < 10
    return taken


def test_compaction_beside_a_decode_and_encode_and_a_copy_of_the_same_objects(report, spark, many_files):
    keys, base, run = objects(many_files.name), head(many_files.name), in_session(spark)
    assert len(keys) == FILES
    first = packed(many_files, run, base)
    copied, encoded, compacted = [], [], []
    for _ in range(ROUNDS):
        taken, size = side_by_side(keys, lambda body: body)
        copied.append(taken)
        encoded.append(side_by_side(keys, encoded_again)[0])
        compacted.append(packed(many_files, run, base))
    what, megabytes = f"of {FILES} files, {size / (1 << 20):.0f} MB", size / (1 << 20)
    report.add(f"compaction {what}, a server's first", [megabytes / first], "MB/s")
    for name, takes in (("a copy", copied), ("decode and encode by PyArrow", encoded), ("compaction", compacted)):
        report.add(f"{name} {what}", [megabytes / seconds for seconds in takes], "MB/s")
    report.ratio("speed of compaction / of decode and encode", encoded, compacted, at_least=0.5)
    report.ratio("speed of compaction / of a copy", copied, compacted, at_least=0.4)


def spark_jobs(stack) -> int:
    """How many jobs the Connect server has run so far, by its own count."""
    api = f"http://127.0.0.1:{stack.spark_ui_port}/api/v1/applications"
    (application,) = httpx.get(api).json()
    return max((job["jobId"] + 1 for job in httpx.get(f"{api}/{application['id']}/jobs").json()), default=0)


def test_a_window_that_finds_nothing_to_do(report, spark, stack, many_files):
    contract = many_files.contract(target_file_mb=128)
    keep(contract, in_session(spark))
    before, begun = spark_jobs(stack), time.perf_counter()
    assert keep(contract, in_session(spark)) == []
    report.add("a window that finds nothing to do (at most 5 s)", [time.perf_counter() - begun])
    assert before > 0
    report.add("Spark jobs of a window that finds nothing to do (none)", [spark_jobs(stack) - before], "")


@pytest.fixture
def streamed(spark) -> Iterator[Worn]:
    """20,000 objects in two days, as a stream of ten thousand events a second that commits all the time leaves them."""
    made = Worn.made(spark)
    for commit in range(OBJECTS // 1_000):
        first = commit * 1_000 * EVENTS
        day = DAYS[commit % 2]
        rows = spark.sql(
            f"SELECT id, TIMESTAMP '{day} 12:00:00' AS at, id * 3 AS amount "
            f"FROM range({first}, {first + 1_000 * EVENTS}, 1, 1000)"
        )
        scattered(rows, made)
    yield made
    made.drop()


def asked(name: str, stack, monkeypatch) -> tuple[dict[str, float], tuple]:
    """One fixed query: seconds to plan and to answer it, and the store's requests."""
    begun = time.perf_counter()
    list(loaded(name).scan(row_filter="at < '2026-01-02T00:00:00+00:00'").plan_files())
    planning = time.perf_counter() - begun
    with counted(stack.s3_endpoint) as way, monkeypatch.context() as patch:
        patch.setenv("LAKEHOUSE_S3_ENDPOINT", way.endpoint)
        settings.cache_clear()
        catalog_of.cache_clear()
        begun = time.perf_counter()
        rows = run_sql(f"SELECT count(*), sum(amount) FROM {name} WHERE \"at\" < TIMESTAMP '2026-01-02'")[1][0]
        answering = time.perf_counter() - begun
        patch.undo()
    settings.cache_clear()
    catalog_of.cache_clear()
    return {"planning, s": planning, "the query, s": answering, "requests to the store": way.requests}, rows


def test_twenty_thousand_small_files_before_and_after(report, spark, stack, streamed, monkeypatch):
    assert health(loaded(streamed.name)).files == OBJECTS
    before, rows = asked(streamed.name, stack, monkeypatch)
    begun = time.perf_counter()
    keep(streamed.contract(target_file_mb=128, min_manifests=4), in_session(spark))
    report.add(f"maintenance of {OBJECTS:,} objects", [time.perf_counter() - begun])
    after, same = asked(streamed.name, stack, monkeypatch)
    assert same == rows
    assert health(loaded(streamed.name)).files < 10
    for name, value in before.items():
        unit = "s" if name.endswith(", s") else ""
        report.add(f"{OBJECTS:,} objects: {name}", [value], unit)
        report.add(f"{OBJECTS:,} objects: {name}, maintained", [after[name]], unit)
        report.ratio(f"{OBJECTS:,} objects: {name}, before / after", [value], [max(after[name], 1e-3)])
