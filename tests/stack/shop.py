"""A sample shop of a test's own: contracts under other names, landing files under another prefix, on the real stack."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehouse import naming, steps
from lakehouse.catalog import catalog, ref_snapshot, table
from lakehouse.contracts import AnyContract, load
from lakehouse.intervals import Interval
from lakehouse.jobs import taken_over
from lakehouse.ledger import leases
from lakehouse.plan import Attempt
from lakehouse.sample import Recipe
from lakehouse.sample.generator import folder_files
from lakehouse.settings import ROOT
from lakehouse.store import client
from tests.oracle import Result, oracle
from tests.stack.harness import eventually

RunJob = Callable[[Any], None]
GOLD = {"orders": "daily_sales", "clicks": "click_sessions"}


def interval(day: date) -> Interval:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return Interval(start, start + timedelta(1))


def in_session(spark: SparkSession) -> RunJob:
    """Runs jobs in this process, on one warm session."""
    from spark_jobs.__main__ import run

    return lambda job: run(spark, taken_over(job.key))


def client_of(key: str) -> list[str]:
    """The command that runs a job in a process of its own, as a task does."""
    return [sys.executable, "-m", "spark_jobs", "--job", key]


@dataclass
class Shop:
    """Such as bronze.orders_x → silver.orders_x → gold.daily_sales_x, over landing/orders_x/."""

    folder: Path
    suffix: str
    source: str = "orders"
    handovers: list[steps.Handover] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path, source: str = "orders", **replaced: str) -> Shop:
        """Copy the project's contracts into `folder` under new names; `replaced` changes lines of each by field."""
        suffix = f"t{uuid4().hex[:6]}"
        of_source = [(layer, source) for layer in ("bronze", "silver")]
        for layer, name in (*of_source, ("gold", GOLD[source])) if source in GOLD else of_source:
            (folder / layer).mkdir(parents=True, exist_ok=True)
            for file in (ROOT / "include/contracts" / layer).glob(f"{name}.*"):
                text = file.read_text()
                for word in (f"bronze.{source}", f"silver.{source}", f"silver_{source}", f"gold.{name}"):
                    text = text.replace(word, f"{word}_{suffix}")
                text = text.replace(f"path: {source}/", f"path: {source}_{suffix}/")
                for line, value in replaced.items():
                    text = text.replace(f"\n{line}: ", f"\n{line}: {value} # ")
                (folder / layer / f"{name}_{suffix}{file.suffix}").write_text(text)
        shutil.copy(ROOT / "include/contracts/layers.yaml", folder / "layers.yaml")
        return cls(folder, suffix, source)

    @property
    def bronze(self) -> str:
        return f"bronze.{self.source}_{self.suffix}"

    @property
    def silver(self) -> str:
        return f"silver.{self.source}_{self.suffix}"

    @property
    def gold(self) -> str:
        return f"gold.{GOLD[self.source]}_{self.suffix}"

    @property
    def datasets(self) -> tuple[str, ...]:
        return (self.bronze, self.silver, *((self.gold,) if self.source in GOLD else ()))

    def contract(self, dataset: str) -> AnyContract:
        loaded = load(self.folder)
        assert dataset in loaded.contracts, loaded.problems
        return loaded.contracts[dataset]

    def files(self, day: date, recipe: Recipe) -> list[tuple[str, bytes]]:
        """A day's landing files of the source, under this shop's prefix."""
        return [(self.key(key), data) for key, data in folder_files(self.source, day, recipe)]

    def key(self, key: str) -> str:
        """The sample's key under this shop's prefix."""
        return key.replace(f"{self.source}/", f"{self.source}_{self.suffix}/", 1)

    def land(self, day: date, files: Mapping[str, bytes]) -> None:
        """A day's folder with these files, whole."""
        folder = f"{self.source}_{self.suffix}/{day}"
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda one: self.put([(f"{folder}/{one[0]}", one[1])]), files.items()))
        self.put([(f"{folder}/_SUCCESS", b"")])

    def put(self, files: Iterable[tuple[str, bytes]]) -> None:
        for key, data in files:
            client().put_object(Bucket="landing", Key=key, Body=data)

    def landed(self, day: date) -> dict[str, bytes]:
        """What lies in a day's landing folder now."""
        prefix = f"{self.source}_{self.suffix}/{day}/"
        found = client().list_objects_v2(Bucket="landing", Prefix=prefix).get("Contents", [])
        return {o["Key"]: client().get_object(Bucket="landing", Key=o["Key"])["Body"].read() for o in found}

    def deliver(self, days: Iterable[date], recipe: Recipe) -> Result:
        """Put the days' files into the landing bucket; returns what should become of them."""
        taken = []
        for day in days:
            files = self.files(day, recipe)
            self.put(files)
            taken += [(day, key, data) for key, data in files]
        return oracle(taken)

    def run(
        self, dataset: str, day: date | Interval, job: RunJob, attempt: Attempt | None = None
    ) -> steps.Handover | None:
        """All steps of one interval, as its DAG takes them; waits for the lease."""
        of = day if isinstance(day, Interval) else interval(day)
        attempt = attempt or Attempt(f"test/{uuid4().hex}", 1)
        contract = self.contract(dataset)
        eventually(lambda: leases.acquire(dataset, attempt.run, attempt.id), 300, f"the lease of {dataset}")
        try:
            handover = steps.write(contract, of, attempt, job)
            if handover is None:
                return None
            handover = steps.audit(contract, handover, attempt, job)
            self.handovers.append(handover)
            return steps.make_public(contract, of, handover, attempt, job)
        finally:
            leases.release(dataset, attempt.run)

    def state(self) -> dict[str, tuple[int | None, str | None]]:
        """Main's snapshot and the metadata file of each table: equal if nothing at all was committed."""
        names = [name for dataset in self.datasets for name in self.contract(dataset).tables]
        return {n: (ref_snapshot(t), t.metadata_location) for n in names if (t := table(n)) is not None}

    def close(self) -> None:
        for dataset in self.datasets:
            for name in naming.tables_of(dataset):
                if table(name) is not None:
                    catalog().purge_table(name)
