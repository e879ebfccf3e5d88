"""What all tests share: an Airflow that is imported into this process finds our plugin, and a home that is thrown away.

Airflow reads both once, when it is first imported, whichever test that is.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile

import pytest

from lakehouse.settings import ROOT


def pytest_configure(config: pytest.Config) -> None:
    home = tempfile.mkdtemp(prefix="lakehouse-airflow-")
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    os.environ["AIRFLOW_HOME"] = home
    os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(ROOT / "plugins")
    os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{home}/none/airflow.db"


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's client asks as often as it always does, without resting in between."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)


def pytest_unconfigure() -> None:
    """A Spark client that was not stopped would try for minutes, when Python ends, to reach a server that is gone."""
    core = sys.modules.get("pyspark.sql.connect.client.core")
    if core is not None:
        for one in gc.get_objects():
            if type(one) is core.SparkConnectClient:  # isinstance would wake what is lazy
                atexit.unregister(one._cleanup_ml_cache)
