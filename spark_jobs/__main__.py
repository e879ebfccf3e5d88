"""The one entry point: `python -m spark_jobs --job KEY`, or this file through spark-submit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.jobs import (
    Audited,
    AuditJob,
    BuildJob,
    CleanJob,
    IngestJob,
    Job,
    LetGoJob,
    Maintained,
    MaintainJob,
    ReplayJob,
    Written,
    answer,
    taken_over,
)
from spark_jobs.audit import audit
from spark_jobs.build import build
from spark_jobs.clean import clean
from spark_jobs.errors import one_sentence, trace
from spark_jobs.ingest import ingest
from spark_jobs.keeping import keeping
from spark_jobs.let_go import let_go
from spark_jobs.maintain import maintain
from spark_jobs.replay import replay
from spark_jobs.session import spark_session


def parse_args(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark_jobs", description="Run one Spark job of the lakehouse.")
    parser.add_argument("--job", required=True, help="key of the job's document in the warehouse bucket")
    return parser.parse_args(argv)


_VERBS: dict[type[Job], Callable[[SparkSession, Any], Written | Audited | Maintained]] = {
    IngestJob: ingest,
    CleanJob: clean,
    ReplayJob: replay,
    BuildJob: build,
    AuditJob: audit,
    MaintainJob: maintain,
    LetGoJob: let_go,
}


def run(spark: SparkSession, job: Job) -> None:
    """Do the job and answer."""
    with keeping():
        answer(job.key, _VERBS[type(job)](spark, job))


def main(argv: Sequence[str] | None = None) -> int:
    key = parse_args(argv).job
    try:
        job = taken_over(key)
        with spark_session(job) as spark:
            run(spark, job)
    except Exception as error:  # noqa: BLE001  # the last line is for whoever is on call, the trace above it for who mends it
        print(trace(error), file=sys.stderr)
        print(one_sentence(error), file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
