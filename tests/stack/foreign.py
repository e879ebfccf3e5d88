"""Datasets that are not the sample shop's: contracts in a folder of their own, over files that a test makes up."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehouse import quarantine, steps
from lakehouse.jobs import Chosen
from lakehouse.ledger import leases
from lakehouse.naming import feed_table, quarantine_table
from lakehouse.plan import Attempt
from lakehouse.query import run_sql
from tests.stack.shop import Shop, in_session

DAY = date(2026, 1, 1)
LAYERS = "".join(
    f"{layer}: {{sla: {{ready_within: 1h}}, retention: {{snapshots: 7d}}, maintenance: {{tier: daily}}}}\n"
    for layer in ("bronze", "silver")
)
BRONZE = """
dataset: bronze.{name}
description: From elsewhere.
owner: team
start: 2026-01-01
source: {{kind: files, path: "{name}/{{interval:%Y-%m-%d}}/", format: {form}}}
"""
SILVER = """
dataset: silver.{name}
description: From elsewhere.
owner: team
start: 2026-01-01
reads: bronze.{name}
most_rejected: 100%
{how}
columns:
{columns}
"""
TASKS = """
  id:   {type: bigint, required: true, from: id}
  name: {type: string, required: true, from: name}
  due:  {type: date, from: due}
  at:   {type: bigint, required: true, from: at}
"""
CHANGES = """
delivers: changes
key: [id]
newest_by: [at]
delete_when: gone = 'yes'
partition_by: [due]
change_feed: true
update_mode: {mode}
"""


class Source:
    """A folder of contracts outside the repository, for one source."""

    def __init__(self, folder: Path, form: str, columns: str, how: str = "delivers: events") -> None:
        self.shop = Shop(folder, f"t{uuid4().hex[:6]}", "foreign")
        name = f"foreign_{self.shop.suffix}"
        for layer, text in (("bronze", BRONZE), ("silver", SILVER)):
            (folder / layer).mkdir()
            (folder / layer / f"{name}.yaml").write_text(text.format(name=name, form=form, columns=columns, how=how))
        (folder / "layers.yaml").write_text(LAYERS)

    def run(self, spark: SparkSession, files: dict[str, bytes], day: date = DAY) -> dict[str, int]:
        """Deliver the files and bring them to silver; what became of the records."""
        self.shop.land(day, files)
        done = [self.shop.run(dataset, day, in_session(spark)) for dataset in self.shop.datasets]
        return done[-1].batch.counts if done[-1] else {}

    def mended(self, right: str, wrong: str) -> None:
        """The silver contract with one thing in it changed."""
        (file,) = (self.shop.folder / "silver").glob("*.yaml")
        assert right in file.read_text()
        file.write_text(file.read_text().replace(right, wrong))

    def resolve(self, spark: SparkSession, resolution: Any) -> dict[str, int]:
        """Replay or discard all that waits in quarantine; what became of it."""
        attempt, contract = Attempt(f"test/{uuid4().hex}", 1), self.shop.contract(self.shop.silver)
        steps.take_lease(contract.dataset, attempt)
        try:
            chosen = Chosen(resolution=resolution, by="ann", why="known")
            return quarantine.resolve(contract, chosen, attempt, in_session(spark))
        finally:
            leases.release(contract.dataset, attempt.run)

    def rows(self, columns: str) -> list[tuple[Any, ...]]:
        return run_sql(f"SELECT {columns} FROM {self.shop.silver} ORDER BY ALL")[1]

    def rejected(self) -> list[tuple[str, list[str]]]:
        """The file and the reasons of each rejected record."""
        found = run_sql(f"SELECT _source_file, _reasons FROM {quarantine_table(self.shop.silver)} ORDER BY ALL")[1]
        return [(file.rsplit("/", 1)[1], reasons) for file, reasons in found]

    def malformed(self) -> list[str]:
        """What the reader says of records it could not read."""
        query = f"SELECT _malformed FROM {self.shop.bronze} WHERE _malformed IS NOT NULL ORDER BY 1"
        return [row[0] for row in run_sql(query)[1]]


def feed_replayed(source: Source) -> list[tuple[int, str]]:
    """The rows that the change feed leads to."""
    found: dict[int, str] = {}
    order = "_changed_at, CASE _change WHEN 'delete' THEN 0 WHEN 'update_before' THEN 0 ELSE 1 END"
    feed = feed_table(source.shop.silver)
    for key, name, change in run_sql(f"SELECT id, name, _change FROM {feed} ORDER BY {order}")[1]:
        if change in ("delete", "update_before"):
            assert found.pop(key) == name, "what is taken away was there"
        else:
            assert key not in found, "what is added was not there"
            found[key] = name
    return sorted(found.items())


def lines(*records: Any) -> bytes:
    return b"".join(r if isinstance(r, bytes) else json.dumps(r).encode() + b"\n" for r in records)


def tasks_of(folder: Path, mode: str = "merge_on_read") -> Source:
    """Changes of tasks, with a feed."""
    return Source(folder, "json_lines", TASKS, CHANGES.format(mode=mode))


def task(key: int, at: int, name: str = "a", due: str | None = None, **more: Any) -> dict[str, Any]:
    """A change of a task, as its source writes it."""
    return {"id": key, "name": name, "due": due, "at": at, **more}
