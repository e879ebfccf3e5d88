"""What tests of contracts share: a folder of good ones, with what a test changes in it."""

from __future__ import annotations

from pathlib import Path

from lakehouse.contracts import load
from lakehouse.contracts.load import Loaded
from lakehouse.settings import ROOT

SHIPPED = ROOT / "include/contracts"
LAYERS = """
bronze: {sla: {ready_within: 1h}, retention: {snapshots: 7d}, maintenance: {tier: daily}}
silver: {sla: {ready_within: 2h}, retention: {snapshots: 7d, keep_last: 9}, maintenance: {tier: daily}}
gold:   {sla: {ready_within: 3h}, retention: {snapshots: 90d}, maintenance: {tier: daily}}
"""
BRONZE = """
dataset: bronze.events
description: Events.
owner: team
start: 2026-01-01
source: {kind: files, path: "events/{interval:%Y-%m-%d}/"}
"""
SILVER = """
dataset: silver.events
description: Events.
owner: team
start: 2026-01-01
reads: bronze.events
columns:
  event_id: {type: bigint, required: true, from: id}
  amount:   {type: "decimal(12,2)", from: amount, check: amount >= 0}
  seen_at:  {type: timestamp, required: true, from: at}
key: [event_id]
newest_by: [seen_at]
partition_by: [day(seen_at)]
"""
GOLD = """
dataset: gold.daily
description: Events a day.
owner: team
start: 2026-01-01
reads: silver.events
columns:
  day:    {type: date, required: true}
  events: {type: bigint, required: true}
partition_by: [day]
rebuild: {day: silver.events.seen_at}
"""
SQL = "SELECT CAST(seen_at AS DATE) AS day, COUNT(*) AS events FROM silver_events GROUP BY ALL"
GOOD = {
    "layers.yaml": LAYERS,
    "bronze/events.yaml": BRONZE,
    "silver/events.yaml": SILVER,
    "gold/daily.yaml": GOLD,
    "gold/daily.sql": SQL,
}


def loaded(folder: Path, changes: dict[str, str | None] | None = None) -> Loaded:
    """The folder of good contracts with some of its files changed, added or (None) left out."""
    for name, text in {**GOOD, **(changes or {})}.items():
        if text is not None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    return load(folder)


def problems(folder: Path, changes: dict[str, str | None]) -> list[str]:
    """Each problem as `file: field: message`, with the file's name within the folder."""
    return [str(p).removeprefix(f"{folder}/") for p in loaded(folder, changes).problems]
