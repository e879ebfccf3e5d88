"""The Spark Connect server, and the properties files that hand Spark its secrets."""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import socket
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from lakehouse.roles import Role
from lakehouse.settings import ROOT, Settings
from lakehouse.spark_conf import REDACT, identity_properties, lake_properties, server_properties
from lakehouse.stack.jars import pyspark_home, spark_jars
from lakehouse.stack.java import find_java
from lakehouse.stack.paths import write_private
from lakehouse.stack.service import HOST, Service

# In Spark's FAIR mode pools share fairly, but jobs within the default pool still queue unless it is told otherwise.
FAIR_POOL = """<?xml version="1.0"?>
<allocations>
  <pool name="default">
    <schedulingMode>FAIR</schedulingMode>
    <weight>1</weight>
  </pool>
</allocations>
"""


@dataclass(frozen=True)
class SparkConnect(Service):
    name = "spark"
    group = "data"
    stage = 2
    patience = 300

    def ports(self) -> dict[str, int]:
        return {"spark_port": self.settings.spark_port, "spark_ui_port": self.settings.spark_ui_port}

    def command(self) -> list[str]:
        server = ROOT / "spark_jobs" / "connect_server.py"
        return [str(script("spark-submit")), "--properties-file", str(connect_conf(self.settings)), str(server)]

    def environment(self) -> dict[str, str]:
        # The Connect server takes its Python workers from here, not from spark.pyspark.python.
        return {**spark_environment(self.settings), "PYSPARK_PYTHON": sys.executable}

    def prepare(self) -> None:
        folder = self.settings.home / "spark"
        shutil.rmtree(folder / "tmp", ignore_errors=True)
        (folder / "tmp").mkdir(mode=0o700, parents=True)
        write_private(folder / "fair.xml", FAIR_POOL)
        write_private(connect_conf(self.settings), properties(connect_properties(self.settings)))
        write_submit_conf(self.settings)

    def healthy(self, since: float) -> bool:  # noqa: ARG002
        return answers(f"{HOST}:{self.settings.spark_port}", self.settings.spark_token.get_secret_value())

    def address(self) -> str:
        return f"sc://localhost:{self.settings.spark_port}"


def spark_environment(settings: Settings) -> dict[str, str]:
    """Where Java and Spark are, and that pages are for this machine alone: they bind to SPARK_LOCAL_IP."""
    local = {"SPARK_LOCAL_IP": HOST} if settings.listen == HOST else {}
    return {**local, "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(pyspark_home())}


def connect_conf(settings: Settings) -> Path:
    return settings.home / "spark" / "connect.conf"


def connect_properties(settings: Settings) -> dict[str, str]:
    """All of the Connect server's configuration, its token included."""
    return {
        **server_properties(settings),
        **(_here(settings) if settings.spark_connect_master.startswith("local") else _on_cluster(settings)),
        "spark.master": settings.spark_connect_master,
        "spark.app.name": "lakehouse",
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.extraClassPath": _class_path(settings),
        "spark.scheduler.allocation.file": (settings.home / "spark" / "fair.xml").as_uri(),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": settings.listen,
        "spark.connect.grpc.binding.port": str(settings.spark_port),
        "spark.connect.authenticate.token": settings.spark_token.get_secret_value(),
        "spark.ui.port": str(settings.spark_ui_port),
        "spark.ui.killEnabled": "false",
        "spark.sql.shuffle.partitions": "8",
    }


def submit_properties(settings: Settings, role: Role) -> dict[str, str]:
    """What spark-submit gets besides master and deploy mode, which are the connection's."""
    local = settings.spark_master.startswith("local")
    jars = {"spark.driver.extraClassPath": _class_path(settings)} if local else {"spark.jars": _jar_list(settings)}
    here = {**_here(settings), "spark.sql.shuffle.partitions": "8"} if local else {}
    return {
        **lake_properties(settings),
        **identity_properties(settings, role),
        **jars,
        **here,
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.ui.enabled": "false",
    }


def write_submit_conf(settings: Settings) -> None:
    """A file for each role."""
    for role in Role:
        write_private(settings.spark_submit_conf(role), properties(submit_properties(settings, role)))


def answers(address: str, token: str) -> bool:
    """Whether a Connect server takes a call with this token. Releasing a session nobody has leaves no trace in it."""
    import grpc

    session = str(uuid.uuid4()).encode()
    # ReleaseSessionRequest by hand, so that no PySpark is loaded: 1 = session id, 2 = user context.
    request = b"\x0a" + bytes([len(session)]) + session + b"\x12\x00"
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        call = channel.unary_unary("/spark.connect.SparkConnectService/ReleaseSession")
        try:
            call(request, timeout=5, metadata=[("authorization", f"Bearer {token}")])
        except grpc.RpcError:
            return False
    return True


def cluster_secret(settings: Settings) -> dict[str, str]:
    """What master, workers and applications of our own cluster prove to each other; it follows the Connect token."""
    token = settings.spark_token.get_secret_value().encode()
    secret = hmac.new(token, b"cluster", hashlib.sha256).hexdigest()
    return {"spark.authenticate": "true", "spark.authenticate.secret": secret}


def _on_cluster(settings: Settings) -> dict[str, str]:
    """A driver that executors elsewhere can reach; they find the same jars under the same path."""
    return {
        **_scratch(settings),
        **cluster_secret(settings),
        "spark.driver.host": socket.gethostname(),
        "spark.driver.bindAddress": settings.listen,
        "spark.executor.extraClassPath": _class_path(settings),
        "spark.executor.memory": settings.spark_worker_memory,
    }


def _here(settings: Settings) -> dict[str, str]:
    return {**_scratch(settings), "spark.driver.host": HOST, "spark.driver.bindAddress": HOST}


def _scratch(settings: Settings) -> dict[str, str]:
    scratch = settings.home / "spark" / "tmp"
    return {
        "spark.local.dir": str(scratch),
        # Native libraries are unpacked there; in the system's folder a killed server would leave them for ever.
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData",
        "spark.sql.warehouse.dir": str(settings.home / "spark" / "warehouse"),
        "spark.pyspark.python": sys.executable,
        "spark.redaction.regex": REDACT,
    }


def _class_path(settings: Settings) -> str:
    return os.pathsep.join(str(jar) for jar in spark_jars(settings))


def _jar_list(settings: Settings) -> str:
    return ",".join(str(jar) for jar in spark_jars(settings))


def properties(values: dict[str, str]) -> str:
    escaped = {key: value.replace("\\", "\\\\") for key, value in values.items()}
    return "".join(f"{key}={value}\n" for key, value in sorted(escaped.items()))


def script(name: str) -> Path:
    """A program of this environment."""
    return Path(sys.executable).parent / name
