"""The one entry point: `python -m spark_jobs --job KEY`, or this file through spark-submit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from lakehouse.jobs import AuditJob, BuildJob, CleanJob, IngestJob, MaintainJob, answer, taken_over
from spark_jobs.audit import audit
from spark_jobs.build import build
from spark_jobs.clean import clean
from spark_jobs.errors import one_sentence, trace
from spark_jobs.ingest import ingest
from spark_jobs.maintain import maintain
from spark_jobs.session import spark_session


def parse_args(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark_jobs", description="Run one Spark job of the lakehouse.")
    parser.add_argument("--job", required=True, help="key of the job's document in the warehouse bucket")
    return parser.parse_args(argv)


def run(spark: SparkSession, job: IngestJob | CleanJob | BuildJob | AuditJob | MaintainJob) -> None:
    """Do the job and answer."""
    match job:
        case IngestJob():
            answer(job.key, ingest(spark, job))
        case CleanJob():
            answer(job.key, clean(spark, job))
        case BuildJob():
            answer(job.key, build(spark, job))
        case AuditJob():
            answer(job.key, audit(spark, job))
        case MaintainJob():
            answer(job.key, maintain(spark, job))


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
