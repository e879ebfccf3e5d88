"""Writers, a reader and maintenance at once, for minutes: no row lost or doubled, at any version that can be read.

SOAK_SECONDS says for how long; `make soak` gives it half an hour.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from traceback import format_exception
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.catalog import history, ref_snapshot
from lakehouse.errors import LakehouseError
from lakehouse.health.score import score
from lakehouse.ledger import leases
from lakehouse.ledger import maintenance as log
from lakehouse.maintenance.carried_out import LeaseHeld
from lakehouse.maintenance.expiry import READERS
from lakehouse.maintenance.reachable import check
from lakehouse.naming import table_sql
from lakehouse.query import run_sql
from spark_jobs.session import connect
from tests.stack.harness import eventually
from tests.stack.shop import in_session
from tests.stack.tables import loaded
from tests.stack.worn import DAYS, Worn, keep

SECONDS = float(os.environ.get("SOAK_SECONDS", "180"))
STEP = "soak.step"
CONFLICT = re.compile("ValidationException|CommitFailedException|conflicting|missing data files", re.IGNORECASE)
RETENTION = {"snapshots": "90s", "keep_last": 5}
pytestmark = pytest.mark.timeout(int(SECONDS) + 900)


def a_day_on() -> datetime:
    """The time by which versions of 90 seconds ago may expire: none does that was main within a day."""
    return datetime.now(UTC) + READERS - timedelta(seconds=90)


@dataclass
class Soaked(Worn):
    """A table with a writer, and what it held after each of the writer's steps."""

    def __post_init__(self) -> None:
        self.steps: dict[int, tuple[int, int]] = {0: (0, 0)}
        self.chance = random.Random(self.name)
        self.seen: set[int] = set()

    def step(self, spark: SparkSession) -> None:
        """Append, merge or delete, in one commit that carries its number."""
        number = len(self.steps)
        spark.conf.set(f"spark.sql.iceberg.snapshot-property.{STEP}", str(number))
        kind = self.chance.choice(["append", "append", "merge", "delete"]) if self.rows else "append"
        known = dict(self.rows)
        if kind == "append":
            self.write(spark, self.chance.choice(DAYS), range(number * 1_000, number * 1_000 + 50))
        elif kind == "delete":
            first = self.chance.choice(sorted(self.rows))
            self.delete(spark, range(first, first + 10))
        else:
            self.merge(spark, self.chance.sample(sorted(self.rows), 20))
        if self.rows == known:
            return  # nothing was deleted, and nothing committed
        self.steps[number] = (len(self.rows), sum(amount for _, amount in self.rows.values()))

    def merge(self, spark: SparkSession, ids: list[int]) -> None:
        values = ", ".join(f"({number}, {self.rows[number][1] + 1})" for number in ids)
        spark.sql(
            f"MERGE INTO {table_sql(self.name)} t USING (SELECT * FROM VALUES {values} AS v(id, amount)) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.amount = s.amount"
        )
        self.rows |= {number: (self.rows[number][0], self.rows[number][1] + 1) for number in ids}


class Soak:
    """The threads, what they count, and the first thing that went wrong."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[BaseException] = []
        self.until = time.monotonic() + SECONDS

    def over(self) -> bool:
        return bool(self.wrong) or time.monotonic() > self.until

    def thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        def guarded() -> None:
            try:
                while not self.over():
                    work()
            except BaseException as error:  # noqa: BLE001  # the test's own thread raises it
                self.wrong.append(error)

        return threading.Thread(target=guarded, name=name, daemon=True)


def lawless(soak: Soak, table: Soaked, spark: SparkSession) -> Callable[[], None]:
    """A writer that knows of no lease: what conflicts with maintenance is refused, and it tries again."""

    def work() -> None:
        try:
            table.step(spark)
            soak.counts["writes"] += 1
        except PySparkException as error:
            if not CONFLICT.search(str(error)):
                raise
            soak.counts["conflicts"] += 1
        threading.Event().wait(table.chance.uniform(0.5, 2.0))

    return work


def writing(soak: Soak, table: Soaked, spark: SparkSession) -> Callable[[], None]:
    def work() -> None:
        owner = f"writer/{uuid4().hex}"
        begun = time.monotonic()
        eventually(lambda: leases.acquire(table.name, owner, f"{owner}#1"), 120, f"the lease of {table.name}")
        soak.counts["longest wait of a writer, ms"] = max(
            soak.counts["longest wait of a writer, ms"], int((time.monotonic() - begun) * 1000)
        )
        try:
            table.step(spark)
        finally:
            leases.release(table.name, owner)
        soak.counts["writes"] += 1
        threading.Event().wait(table.chance.uniform(0.5, 2.0))

    return work


def disagreeing(table: Soaked, snapshot: int, query: str, number: int) -> str:
    """What a second look and another engine say: whether the version is wrong, or was read wrongly."""
    spark = connect(str(uuid4()))
    try:
        by_spark = spark.sql(query.replace(table.name, f"{table_sql(table.name)} VERSION AS OF {snapshot}")).first()
    finally:
        spark.stop()
    again = run_sql(query, at=str(snapshot))[1][0]
    return f"{table.name} at {snapshot}, step {number}; DuckDB once more: {again}; Spark: {tuple(by_spark or ())}"


def reading(soak: Soak, tables: list[Soaked]) -> Callable[[], None]:
    """Every version of main, once: it holds what the writer's newest step in it left."""

    def work() -> None:
        for table in tables:
            found = loaded(table.name)
            line = history(found, ref_snapshot(found))
            for place, one in enumerate(line):
                if one.snapshot_id in table.seen:
                    continue
                told = [each.summary.get(STEP) for each in line[place:] if each.summary]
                number = int(next((each for each in told if each), 0))
                eventually(lambda n=number, t=table: n in t.steps or soak.over(), 60, "the writer has counted")
                try:
                    query = f"SELECT count(*), count(DISTINCT id), coalesce(sum(amount), 0) FROM {table.name}"
                    rows = run_sql(query, at=str(one.snapshot_id))[1][0]
                except Exception:
                    if loaded(table.name).snapshot_by_id(one.snapshot_id) is None:
                        continue  # it has expired in between
                    raise
                if number in table.steps and any(told):
                    count, total = table.steps[number]
                    assert tuple(rows) == (count, count, total), disagreeing(table, one.snapshot_id, query, number)
                    soak.counts["versions read"] += 1
                table.seen.add(one.snapshot_id)
        threading.Event().wait(0.2)

    return work


def maintaining(soak: Soak, tables: list[Soaked], spark: SparkSession) -> Callable[[], None]:
    def work() -> None:
        for table in tables:
            try:
                lines = keep(table.contract(retention=RETENTION), in_session(spark), now=a_day_on())
            except LeaseHeld:
                soak.counts["put off"] += 1
                continue
            except LakehouseError as error:
                told = "".join(format_exception(error))
                if type(error) is not LakehouseError or not CONFLICT.search(told):  # a lost row is none
                    raise
                soak.counts["conflicts of maintenance"] += 1
                continue
            for line in lines:
                soak.counts[line.split(": ")[1].split(",")[0]] += 1

    return work


def leases_held(tables: list[Soaked]) -> str:
    """For how long maintenance kept writers waiting, by operation, as its own log says."""
    rows = [row for table in tables for row in log.recent(table.name, 100_000) if row["outcome"] == log.DONE]
    held: dict[str, list[float]] = {}
    for row in rows:
        held.setdefault(row["operation"], []).append(row["detail"]["lease_seconds"])
    return ", ".join(
        f"{name}: {len(each)} times, median {median(each):.1f} s, most {max(each):.1f} s" for name, each in held.items()
    )


def test_nothing_is_lost_while_all_are_at_work(stack):
    sessions = [connect(str(uuid4())) for _ in range(4)]
    tables = [Soaked.made(sessions[0]) for _ in range(3)]
    soak = Soak()
    writers = zip((writing, writing, lawless), tables, sessions[:3], strict=True)
    threads = [soak.thread(writer(soak, table, spark), table.name) for writer, table, spark in writers]
    threads += [soak.thread(reading(soak, tables), "reader")]
    threads += [soak.thread(maintaining(soak, tables, sessions[3]), "maintenance")]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + 600)
        if soak.wrong:
            raise soak.wrong[0]
        for table in tables:
            contract = table.contract(retention=RETENTION)
            keep(contract, in_session(sessions[3]), now=a_day_on())
            table.holds_its_rows()
            assert check(table.name, loaded(table.name)) > 0
            assert score(table.health(), contract.maintenance, contract.retention, datetime.now(UTC)).total >= 60
    finally:
        print(dict(soak.counts))
        print("the lease was held", leases_held(tables))
        for table in tables:
            table.drop()
        for session in sessions:
            session.stop()
    assert soak.counts["rewrite_data_files"] > 0
    assert soak.counts["expire_snapshots"] > 0
    assert soak.counts["versions read"] > soak.counts["writes"] // 2
