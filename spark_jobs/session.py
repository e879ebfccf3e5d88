"""The one place where a Spark session is made and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn, cast

import grpc
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession as ConnectSession

from lakehouse.identities import acting
from lakehouse.jobs import Job
from lakehouse.settings import settings
from lakehouse.spark_conf import identity_properties

CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # What Spark infers from a contract's rules grows exponentially with their number, and prunes nothing here.
    "spark.sql.constraintPropagation.enabled": "false",
    # What a job keeps it reads a few times within seconds: finding how to pack it takes a tenth of reading its records.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}


# A session that nobody refers to would be closed by whichever thread collects garbage; gRPC's own would never end.
_OPENED: list[ConnectSession] = []


class TokenChannel(DefaultChannelBuilder):
    """Carries the setting's token to any host; the stock one insists on TLS, and on a variable of its own."""

    def toChannel(self) -> grpc.Channel:  # noqa: N802
        return super().toChannel() if self.use_ssl else self._insecure_channel(self.endpoint)

    def metadata(self) -> Iterable[tuple[str, str]]:
        token = settings().spark_token.get_secret_value()
        sent = self.use_ssl and self.token is not None  # by the stock channel, with the call's credentials
        return [*super().metadata(), *([("authorization", f"Bearer {token}")] if token and not sent else [])]


def connect(session_id: str) -> SparkSession:
    """A session on the Connect server, as jobs have it, in the role in which this process acts."""
    return _configured(_opened(session_id), identity_properties(settings(), acting()))


def _configured(spark: SparkSession, more: Mapping[str, str]) -> SparkSession:
    for name, value in {**CONF, **more}.items():
        spark.conf.set(name, value)
    return spark


def _opened(session_id: str) -> SparkSession:
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # makes pyspark's functions build Connect's plans, not the JVM's
    channel = TokenChannel(settings().spark_remote)
    channel.set(DefaultChannelBuilder.PARAM_SESSION_ID, session_id)
    channel.set(DefaultChannelBuilder.PARAM_USER_ID, "lakehouse")
    _OPENED.append(ConnectSession.builder.channelBuilder(channel).create())
    # Connect's session has the same methods, but is no subclass.
    return cast("SparkSession", _OPENED[-1])


def release(session_ids: Iterable[str]) -> None:
    """End the sessions that earlier tries of this run may have left running."""
    for session_id in session_ids:
        with contextlib.suppress(Exception):
            _opened(session_id).stop()


@contextlib.contextmanager
def spark_session(job: Job) -> Iterator[SparkSession]:
    """A session for one job, by Connect or inside spark-submit; SIGTERM stops its work at once."""
    parent = os.getppid()  # before the first call, which may wait long: by then the task may be gone
    if settings().spark_mode == "connect":
        release(job.stale_sessions)
        spark = connect(job.session_id)
    else:
        spark = _configured(SparkSession.builder.appName(job.key).getOrCreate(), {})  # its file says who it is
    signal.signal(signal.SIGTERM, lambda *_: _stop(spark, "the task was told to end"))
    threading.Thread(target=_end_with_parent, args=(spark, parent), daemon=True).start()
    try:
        yield spark
    finally:
        spark.stop()


def _end_with_parent(spark: SparkSession, parent: int) -> None:
    """A task that was killed outright cannot tell its job to stop: the job notices."""
    while os.getppid() == parent:
        time.sleep(1)
    _stop(spark, "the task is gone")


def _stop(spark: SparkSession, why: str) -> NoReturn:
    """End the session's work on the server and leave, without unwinding a thread that may be blocked in gRPC."""
    print(f"stopping: {why}", file=sys.stderr, flush=True)
    with contextlib.suppress(Exception):
        if settings().spark_mode == "connect":
            spark.interruptAll()
        else:
            spark.sparkContext.cancelAllJobs()
    with contextlib.suppress(Exception):
        spark.stop()
    os._exit(128 + signal.SIGTERM)
