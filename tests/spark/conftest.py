"""One local Spark session for the tests of this folder: no catalog, no store, nothing but loopback."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouse.stack.java import find_java
from spark_jobs.session import CONF

LOCAL = {
    "spark.driver.memory": "1g",
    # Many small queries on one short-lived JVM: compiling them well costs more than running them.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="package")
def spark(tmp_path_factory) -> Iterator[SparkSession]:
    """A session configured as a job configures its own; the JVM ends with the folder's last test."""
    scratch = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        # What a Connect client leaves behind would make pyspark's functions build plans for a server.
        patch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
        patch.delenv("SPARK_REMOTE", raising=False)
        # Collected times are given in this process's zone, whatever the session's is.
        patch.setenv("TZ", "UTC")
        time.tzset()
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("JAVA_HOME", str(find_java().home))
        builder = SparkSession.builder.master("local[2]").appName("tests")
        places = {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
        session = builder.config(map={**LOCAL, **places, **CONF}).getOrCreate()
        yield session
        session.stop()
        _end_jvm()
    time.tzset()


def _end_jvm() -> None:
    """pyspark would keep its JVM until this process ends, beside the stacks that other tests start."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(autouse=True)
def _no_call_sites(monkeypatch):
    """Each call of pyspark's would ask the JVM several times over where it stands, for the sake of error messages."""
    monkeypatch.setattr("pyspark.errors.utils._enable_debugging_cache", False)
