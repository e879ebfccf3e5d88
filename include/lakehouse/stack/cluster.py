"""A standalone Spark cluster: one master, any number of workers. Containers have one; the local stack needs none."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from lakehouse.stack.jars import pyspark_home
from lakehouse.stack.paths import write_private
from lakehouse.stack.probe import get
from lakehouse.stack.service import HOST, Service
from lakehouse.stack.spark import cluster_secret, properties, spark_environment

MASTER_PORT = 7077
WORKER_UI_PORT = 8081


@dataclass(frozen=True)
class _Daemon(Service):
    """One of Spark's own daemons, for callers that know the cluster's secret."""

    group = "cluster"
    stage = 1

    main: ClassVar[str]

    @property
    def conf(self) -> Path:
        return self.settings.home / "spark" / f"{self.name}.conf"

    @property
    @abstractmethod
    def page(self) -> int:
        """The port of its web page."""

    @abstractmethod
    def arguments(self) -> list[str]:
        """What this daemon is told besides."""

    def command(self) -> list[str]:
        where = ["--webui-port", str(self.page), "--properties-file", str(self.conf)]
        return [str(pyspark_home() / "bin" / "spark-class"), self.main, *where, *self.arguments()]

    def environment(self) -> dict[str, str]:
        return {**spark_environment(self.settings), "SPARK_DAEMON_MEMORY": "512m"}

    def prepare(self) -> None:
        # Jobs could be submitted to the REST server without the secret.
        fixed = {"spark.master.rest.enabled": "false", "spark.ui.killEnabled": "false"}
        write_private(self.conf, properties({**cluster_secret(self.settings), **fixed}))

    def healthy(self, since: float) -> bool:  # noqa: ARG002
        return get(f"http://{HOST}:{self.page}/json/") is not None


@dataclass(frozen=True)
class SparkMaster(_Daemon):
    name = "spark-master"
    main = "org.apache.spark.deploy.master.Master"

    @property
    def page(self) -> int:
        return self.settings.spark_master_ui_port

    def arguments(self) -> list[str]:
        return ["--host", urlsplit(self.settings.spark_connect_master).hostname or HOST, "--port", str(MASTER_PORT)]


@dataclass(frozen=True)
class SparkWorker(_Daemon):
    name = "spark-worker"
    main = "org.apache.spark.deploy.worker.Worker"

    @property
    def page(self) -> int:
        return WORKER_UI_PORT

    def arguments(self) -> list[str]:
        settings = self.settings
        offers = ["--cores", str(settings.spark_worker_cores), "--memory", settings.spark_worker_memory]
        return [*offers, "--work-dir", str(settings.home / "spark" / "work"), settings.spark_connect_master]
