"""Every name is made here: DAG and task ids, tables, branches, batches, objects."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence

from lakehouse.intervals import Interval

CATALOG = "lake"
LAYERS = ("bronze", "silver", "gold")
NAMESPACES = (*LAYERS, "quarantine", "ops")

COVERAGE = "lakehouse.coverage"
ABSORBED = "lakehouse.absorbed"
# What a silver table is filled from, and how that comes.
SOURCE = "lakehouse.source"
# The day before which rows were let go: a property of the table, and of the version that let them go.
ROWS_FROM = "lakehouse.rows-from"
# Each snapshot's summary says where it comes from.
BATCH = "lakehouse.batch-id"
INPUTS = "lakehouse.inputs"
CONTRACT = "lakehouse.contract"
CODE = "lakehouse.code"

AUDIT_BRANCH = "audit_"
# A tag that keeps a version because a published one was made from it.
INPUT_TAG = "input_of_"
# A tag that a rollback needs to move a table: without it, it has been given up.
ROLLBACK_TAG = "rollback_"
# The folder of job documents in the warehouse bucket.
JOBS = "_jobs"
# The folder of the landing bucket where files go that are past their time.
ARCHIVE = "_archive/"
# The object that says of a landing folder that files have gone from it.
CLEARED = "_CLEARED"
SPARK_POOL = "spark"
# Maintenance waits for its own kind, and no pipeline waits for it.
MAINTENANCE_POOL = "maintenance"
REPLAY_DAG = "replay_quarantine"
ROLLBACK_DAG = "rollback"
WATCH_DAG = "watch_freshness"


def layer_of(dataset: str) -> str:
    return dataset.split(".", 1)[0]


def short_name(dataset: str) -> str:
    return dataset.split(".", 1)[1]


def dag_id(dataset: str) -> str:
    return dataset.replace(".", "_")


def maintenance_dag_id(tier: str) -> str:
    return f"maintenance_{tier}"


def critical_run_id(dataset: str, measurement: int) -> str:
    """The run of maintenance that a table needs at once, since it was last measured."""
    return f"critical__{dag_id(dataset)}__{measurement}"


def versions_of(table: str) -> str:
    """The right to name or to expire a table's versions, as the ledger keeps it among the leases."""
    return f"{table}/versions"


def quarantine_table(dataset: str) -> str:
    return f"quarantine.{dag_id(dataset)}"


def tombstone_table(dataset: str) -> str:
    """Remembers the newest delete of each key, so that an older change which arrives later stays deleted."""
    return f"ops.{dag_id(dataset)}_deleted"


def feed_table(dataset: str) -> str:
    """Holds every change of a dataset, before and after."""
    return f"{dataset}_changes"


def tables_of(dataset: str) -> tuple[str, ...]:
    """A dataset's table and all companions it can have."""
    if layer_of(dataset) == "silver":
        return dataset, quarantine_table(dataset), tombstone_table(dataset), feed_table(dataset)
    return (dataset,)


def digest(value: object, length: int = 12) -> str:
    """A short stable hash of anything that JSON can hold."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def batch_id(dataset: str, interval: Interval, fingerprint: str) -> str:
    """The same dataset, interval, contract and inputs give the same id, whoever asks and however often."""
    return f"{dag_id(dataset)}-{interval.start:%Y%m%dT%H%M%S}-{digest([dataset, str(interval), fingerprint])}"


def attempt_id(run: str, number: int, redone: int = 0) -> str:
    return f"{run}#{number}" + (f".{redone}" if redone else "")


def branches_of(dataset: str, interval: Interval) -> str:
    """What the branches of all tries of one interval begin with."""
    return f"{AUDIT_BRANCH}{dag_id(dataset)}_{interval.start:%Y%m%dT%H%M%S}_"


def branch(dataset: str, interval: Interval, batch: str, attempt: str) -> str:
    """The branch that one try of one batch writes to, and no other try ever will."""
    return branches_of(dataset, interval) + digest([batch, attempt])


def spark_session_id(attempt: str, verb: str) -> str:
    """A Connect session id that a later try can derive, to release what its predecessor left running."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"lakehouse/{attempt}/{verb}"))


def job_key(dataset: str, attempt: str, verb: str) -> str:
    return f"{JOBS}/{dataset}/{digest(attempt, 16)}/{verb}.json"


def result_key(job: str) -> str:
    return job.removesuffix(".json") + ".result.json"


def quoted(*identifiers: str) -> str:
    """Identifiers as SQL text; a backtick inside one is doubled, so none can end its quotes."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in identifiers)


def table_sql(table: str, branch_name: str | None = None) -> str:
    """A table, or one of its branches, as SQL text."""
    parts: Sequence[str] = (CATALOG, *table.split("."), *([f"branch_{branch_name}"] if branch_name else []))
    return quoted(*parts)
