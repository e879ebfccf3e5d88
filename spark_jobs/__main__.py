"""The one entry point: `python -m spark_jobs --job KEY`, or this file through spark-submit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from lakehouse.jobs import (
    Audited,
    AuditJob,
    BuildJob,
    CleanJob,
    IngestJob,
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
from spark_jobs.maintain import maintain
from spark_jobs.replay import replay
from spark_jobs.session import spark_session


def parse_args(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark_jobs", description="Run one Spark job of the lakehouse.")
    parser.add_argument("--job", required=True, help="key of the job's document in the warehouse bucket")
    return parser.parse_args(argv)


def run(spark: SparkSession, job: IngestJob | CleanJob | BuildJob | AuditJob | MaintainJob) -> None:
    """Do the job and answer."""
    with keeping():
        answer(job.key, _done(spark, job))


def _done(
    spark: SparkSession, job: IngestJob | CleanJob | BuildJob | AuditJob | MaintainJob
) -> Written | Audited | Maintained:
    match job:
        case IngestJob():
            return ingest(spark, job)
        case ReplayJob():
            return replay(spark, job)
        case CleanJob():
            return clean(spark, job)
        case BuildJob():
            return build(spark, job)
        case AuditJob():
            return audit(spark, job)
        case MaintainJob():
            return maintain(spark, job)


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
