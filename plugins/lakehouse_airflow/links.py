"""Links from a step to what it worked on: the Spark session of its job, and the version that it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink

from lakehouse.settings import settings

if TYPE_CHECKING:
    from lakehouse.batch import TableWrite


class SparkLink(BaseOperatorLink):
    """The session of the step's job in Spark's UI: while it runs, and for as long as the server remembers it."""

    name = "Spark session"
    xcom_key = "spark_link"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        return str(operator.spark_link)


class SnapshotLink(BaseOperatorLink):
    """The version that the step wrote, looked at or published, in the store's console."""

    name = "Snapshot"
    xcom_key = "snapshot_link"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        """Airflow calls it when the step is over, whatever became of it; no error here can change that."""
        return snapshot_url(operator.wrote) if operator.wrote else ""


def session_url(session_id: str) -> str:
    """Where a Connect session's jobs are shown; nothing where no UI is known."""
    base = settings().spark_ui_url.rstrip("/")
    return f"{base}/connect/session/?id={quote(session_id)}" if base else ""


def object_url(uri: str) -> str:
    """Where an object is shown in the store's console; nothing where none is known."""
    place = urlsplit(uri)
    key = quote(place.path.lstrip("/"), safe="")
    return settings().store_ui_url.replace("{bucket}", quote(place.netloc)).replace("{key}", key)


def snapshot_url(written: TableWrite) -> str:
    """Where the list of a version's files is shown; nothing where there is no version or no console."""
    from lakehouse.catalog import table

    found = table(written.table) if settings().store_ui_url and written.head else None
    snapshot = found.snapshot_by_id(written.head) if found and written.head else None
    return object_url(snapshot.manifest_list) if snapshot else ""
