"""What tasks import, imported once: the local executor forks a process per task from the scheduler."""

from __future__ import annotations

import gc
from importlib import import_module

# Each opens nothing when imported: a connection must not cross a fork.
HEAVY = (
    "lakehouse.steps",
    "lakehouse.maintenance.carried_out",
    "lakehouse.maintenance.seen",
    "lakehouse_airflow.factory",
    "airflow.providers.apache.spark.hooks.spark_connect",
)


def preload() -> None:
    """Pay for the imports of PyIceberg, boto3 and the ledger in the scheduler, not in every task."""
    for module in HEAVY:
        import_module(module)
    gc.freeze()
