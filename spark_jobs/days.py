"""The days that a job on a gold table is about: as rows of the table, and as rows of the input they are built from."""

from __future__ import annotations

from datetime import date, timedelta
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.contracts.model import Gold
from lakehouse.jobs import AuditJob, BuildJob


def of_table(job: BuildJob | AuditJob) -> Column | None:
    """The table's rows of these days; None: all of them."""
    own = next(iter(_rebuild(job)), "")
    if own and job.days is not None:
        return F.col(own).isin(list(job.days))
    return F.col(own) >= F.lit(job.rows_from) if own and job.rows_from else None


def of_input(job: BuildJob | AuditJob, dataset: str, rows: DataFrame) -> DataFrame:
    """The rows of an input that these days are built from; all of one whose days are not told."""
    source, _, column = next(iter(_rebuild(job).values()), "").rpartition(".")
    if source != dataset:
        return rows
    if job.days is not None:
        return rows.where(reduce(or_, (_on(column, day) for day in job.days), F.lit(False)))
    return rows.where(F.col(column) >= F.lit(job.rows_from)) if job.rows_from else rows


def _rebuild(job: BuildJob | AuditJob) -> dict[str, str]:
    return job.contract.rebuild if isinstance(job.contract, Gold) else {}


def _on(column: str, day: date) -> Column:
    return (F.col(column) >= F.lit(day)) & (F.col(column) < F.lit(day + timedelta(1)))
