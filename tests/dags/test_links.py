"""Links from a step to its Spark session and to the version that it wrote."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.settings import settings

pytestmark = pytest.mark.usefixtures("airflow_home")
MANIFESTS = "s3://lake/silver/orders/metadata/snap-17-1-ab.avro"


def test_a_session_is_linked_in_the_local_spark_ui():
    from lakehouse_airflow.links import session_url

    assert session_url("17-ab") == "http://127.0.0.1:4040/connect/session/?id=17-ab"


def test_an_object_is_linked_in_the_local_minio_console():
    from lakehouse_airflow.links import object_url

    place = "lake/silver%2Forders%2Fmetadata%2Fsnap-17-1-ab.avro"
    assert object_url(MANIFESTS) == f"http://127.0.0.1:9001/browser/{place}"


def test_links_follow_the_settings(monkeypatch):
    from lakehouse_airflow.links import object_url, session_url

    monkeypatch.setenv("LAKEHOUSE_SPARK_UI_URL", "https://spark.example.org/")
    monkeypatch.setenv("LAKEHOUSE_STORE_UI_URL", "https://s3.example.org/object/{bucket}?prefix={key}")
    settings.cache_clear()
    assert session_url("17") == "https://spark.example.org/connect/session/?id=17"
    place = "lake?prefix=silver%2Forders%2Fmetadata%2Fsnap-17-1-ab.avro"
    assert object_url(MANIFESTS) == f"https://s3.example.org/object/{place}"


def test_a_foreign_spark_or_store_without_an_address_has_no_links(monkeypatch):
    from lakehouse_airflow.links import object_url, session_url

    monkeypatch.setenv("LAKEHOUSE_SPARK_REMOTE", "sc://spark.example.org:15002")
    monkeypatch.setenv("LAKEHOUSE_S3_ENDPOINT", "https://s3.example.org")
    settings.cache_clear()
    assert (session_url("17"), object_url(MANIFESTS)) == ("", "")


@pytest.mark.parametrize(
    ("mode", "link"), [("connect", "http://127.0.0.1:4040/connect/session/?id=17"), ("submit", "")]
)
def test_a_session_can_be_looked_at_while_its_job_runs(mode, link, monkeypatch):
    from lakehouse_airflow import operators
    from lakehouse_airflow.links import SparkLink
    from lakehouse_airflow.runner import runner

    pushed: dict[str, str] = {}
    seen: list[dict[str, str]] = []

    def running(given: str | None) -> Any:
        found = runner(given)
        found.run = lambda key: seen.append(dict(pushed))
        return found

    monkeypatch.setattr(operators, "runner", running)
    step = operators.WriteOperator(task_id="write", dataset="silver.orders")
    step._ti, step._mode = SimpleNamespace(xcom_push=pushed.__setitem__), mode
    step.run_job(SimpleNamespace(key="job.json", session_id="17"))
    assert seen == [{"spark_link": link}]
    assert SparkLink().get_link(step, ti_key=None) == link


def test_a_step_that_wrote_nothing_leads_to_no_version():
    from lakehouse_airflow.links import SnapshotLink
    from lakehouse_airflow.operators import WriteOperator

    step = WriteOperator(task_id="write", dataset="silver.orders")
    assert SnapshotLink().get_link(step, ti_key=None) == ""
