"""Where a snapshot comes from: its batch, the versions of its inputs, its contract and the code, in its own summary."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from lakehouse import naming
from lakehouse.batch import Batch
from lakehouse.catalog import history
from lakehouse.settings import ROOT


@dataclass(frozen=True)
class Origin:
    """What a snapshot's summary says of where it comes from."""

    snapshot: int
    batch_id: str
    inputs: dict[str, int | None]
    contract: str
    code: str


def provenance(batch: Batch) -> dict[str, str]:
    """What the summaries of a batch's snapshots say."""
    return {
        naming.BATCH: batch.batch_id,
        naming.INPUTS: json.dumps(batch.inputs, sort_keys=True),
        naming.CONTRACT: batch.contract_version,
        naming.CODE: code_version(),
    }


@lru_cache(maxsize=1)
def code_version() -> str:
    """The release, and a hash of the sources that decide which rows come out: right in a changed clone, too."""
    found = hashlib.sha256()
    for folder in (Path(__file__).parent, ROOT / "spark_jobs"):
        for file in sorted(folder.rglob("*.py")):
            found.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return f"{version('lakehouse')}+{found.hexdigest()[:12]}"


def batch_of(snapshot: Snapshot) -> str | None:
    """The batch that made a snapshot; none made one of maintenance, or of somebody else."""
    return snapshot.summary.get(naming.BATCH) if snapshot.summary else None


def is_maintenance(snapshot: Snapshot) -> bool:
    """Whether a version was made by maintenance: no row that its contract keeps is different in it."""
    summary = snapshot.summary
    return summary is not None and (summary.operation == Operation.REPLACE or lets_go(snapshot))


def lets_go(snapshot: Snapshot) -> bool:
    """Whether a version was made by letting old rows go."""
    return snapshot.summary is not None and naming.ROWS_FROM in snapshot.summary.additional_properties


def origin(found: Table, snapshot_id: int | None) -> Origin | None:
    """Where a version comes from: what the newest batch in it says."""
    for snapshot in history(found, snapshot_id):
        if batch_of(snapshot) and snapshot.summary:
            told = snapshot.summary.additional_properties
            return Origin(
                snapshot=snapshot.snapshot_id,
                batch_id=told[naming.BATCH],
                inputs=json.loads(told.get(naming.INPUTS, "{}")),
                contract=told.get(naming.CONTRACT, ""),
                code=told.get(naming.CODE, ""),
            )
    return None
