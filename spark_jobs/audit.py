"""Audit: measure what the checks ask of a written version, in as few passes over it as they allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.model import Gold, Silver
from lakehouse.gates.checks import (
    Broken,
    Check,
    Found,
    Gap,
    Missing,
    NullShare,
    Orphans,
    Outside,
    QuantileOf,
    Repeated,
    Returned,
    Rows,
    Strange,
    Whole,
)
from lakehouse.jobs import Audited, AuditJob
from lakehouse.naming import dag_id, quoted
from spark_jobs import tables
from spark_jobs.reach import Keys

SAMPLE = 5
# Rows that break it can be told one by one.
RowByRow = Missing | Broken | Strange | Outside
# One number of many rows, in the same pass as any other.
Aggregate = RowByRow | Rows | Whole | NullShare | QuantileOf
# percentile_approx is then off by less than a thousandth of the rows.
_ACCURACY = 1000


def audit(spark: SparkSession, job: AuditJob) -> Audited:
    """What each check asks for, with rows that break it for a look."""
    version = Version(spark, job)
    in_one_pass = [check for check in job.checks if isinstance(check.measure, Aggregate)]
    others = [check for check in job.checks if check not in in_one_pass]
    return Audited(found=(*version.aggregated(in_one_pass), *(version.compared(check) for check in others)))


class Version:
    """The version under audit, and the part of it that the batch wrote."""

    def __init__(self, spark: SparkSession, job: AuditJob):
        self.spark, self.job = spark, job
        self.head = tables.version(spark, job.contract.dataset, job.snapshot)
        self.mine = self._mine()

    def _mine(self) -> Column | None:
        """Which rows the batch wrote; None: no telling, or all of them."""
        contract, days = self.job.contract, self.job.days
        if "_batch_id" in self.head.columns:
            return F.col("_batch_id") == self.job.batch_id
        if isinstance(contract, Gold) and contract.rebuild and days is not None:
            return F.col(next(iter(contract.rebuild))).isin(list(days))
        return None

    @property
    def own(self) -> DataFrame:
        return self.head if self.mine is None else self.head.where(self.mine)

    def aggregated(self, checks: Sequence[Check]) -> Iterator[Found]:
        """All of them in one pass: over the batch's rows where all ask for no more, else over the version."""
        if not checks:
            return
        narrow = all(check.own for check in checks)
        rows = self.own if narrow else self.head
        mine = {check.gate: self.mine if check.own and not narrow else None for check in checks}
        measures = [check.measure for check in checks if isinstance(check.measure, Aggregate)]
        asked = [_value(measure, mine[check.gate]) for check, measure in zip(checks, measures, strict=True)]
        values: Any = rows.agg(*asked).first()
        for check, measure, value in zip(checks, measures, values, strict=True):
            sample: tuple[str, ...] = ()
            if isinstance(measure, RowByRow) and not check.holds(float(value)):
                sample = _sample((self.own if check.own else self.head).where(_broken(measure)))
            yield Found(gate=check.gate, value=None if value is None else float(value), sample=sample)

    def compared(self, check: Check) -> Found:
        """What needs more than one look at each row: other rows, or other tables."""
        match check.measure:
            case Repeated():
                values = self._suspects(check.measure.columns, own=check.own).groupBy(*check.measure.columns)
                return _counted(check, values.agg(F.count("*").alias("_times")).where("_times > 1"))
            case Orphans():
                return _counted(check, self._orphans(check.measure))
            case Gap():
                return Found(gate=check.gate, value=self._gap(check.measure))
            case Returned():
                # As a part of a query: nothing but a query can stand there.
                query = check.measure.sql.strip().rstrip(";")
                self._make_views(query)
                return _counted(check, self.spark.sql(f"SELECT * FROM (\n{query}\n)"))
        raise TypeError(f"{check.gate}: a {check.measure.kind} is not measured by comparing")

    def _suspects(self, columns: Sequence[str], *, own: bool) -> DataFrame:
        """The values among which some may be repeated: if none was before, those that the batch wrote."""
        values, contract = self.head.select(*columns), self.job.contract
        if not own or not isinstance(contract, Silver):
            return values
        if any(name in contract.columns and not contract.columns[name].required for name in columns):
            return values  # rows without a value are not found by it
        return Keys(self.own, columns).among(values)

    def _orphans(self, asked: Orphans) -> DataFrame:
        there = tables.version(self.spark, asked.dataset, asked.snapshot).select(F.col(asked.other).alias("_there"))
        values = self.head.select(asked.column).where(F.col(asked.column).isNotNull()).distinct()
        return values.join(there, F.col(asked.column) == F.col("_there"), "left_anti")

    def _gap(self, asked: Gap) -> float:
        """Both sums, over the days that the batch built where the contract says which input's days these are."""
        below = tables.version(self.spark, asked.dataset, asked.snapshot)
        mine = self.head
        if isinstance(self.job.contract, Gold) and self.job.days is not None:
            (own, path), *_ = self.job.contract.rebuild.items()
            source, _, column = path.rpartition(".")
            if source == asked.dataset:
                days = list(self.job.days)
                below, mine = below.where(F.col(column).cast("date").isin(days)), mine.where(F.col(own).isin(days))
        if asked.where:
            below = below.where(asked.where)
        (ours,) = mine.agg(F.sum(asked.column)).first() or (None,)
        (theirs,) = below.agg(F.sum(asked.other)).first() or (None,)
        if isinstance(ours, float) or isinstance(theirs, float):
            return float(ours or 0) - float(theirs or 0)
        return float((ours or 0) - (theirs or 0))

    def _make_views(self, query: str) -> None:
        """The version as `head`, and the inputs that the query may mean: each takes several calls to make."""
        self.head.createOrReplaceTempView("head")
        for dataset, snapshot in self.job.inputs.items():
            if dag_id(dataset).lower() in query.lower():
                tables.version(self.spark, dataset, snapshot).createOrReplaceTempView(dag_id(dataset))


def _value(measure: Aggregate, mine: Column | None) -> Column:
    """The aggregate that measures it, over the rows that are `mine`."""
    if isinstance(measure, RowByRow):
        broken = _broken(measure)
        # A row of another batch may be one for which it cannot be computed.
        return F.count_if(broken if mine is None else F.when(mine, broken))
    match measure:
        case Rows():
            return F.count("*")
        case Whole():
            everywhere = F.lit(True) if mine is None else mine
            place = F.when(everywhere, F.struct("_source_file", "_source_offset"))
            rows = F.count_if(everywhere)
            return (rows - F.count_distinct(place)) + F.abs(rows - F.lit(measure.rows))
        case NullShare():
            return F.try_divide(F.count_if(F.col(measure.column).isNull()), F.count("*"))
        case QuantileOf():
            column = F.col(measure.column).cast("double")
            return F.percentile_approx(column if mine is None else F.when(mine, column), measure.at, _ACCURACY)
    assert_never(measure)


def _broken(measure: RowByRow) -> Column:
    """The rows that break it."""
    match measure:
        case Missing():
            return F.col(measure.column).isNull()
        case Broken():
            return F.expr(measure.condition)
        case Strange():
            column = F.col(measure.column)
            return column.isNotNull() & ~column.cast("string").isin(list(measure.accepted))
        case Outside():
            column = F.col(measure.column)
            below = column < F.lit(measure.lowest).cast(measure.type) if measure.lowest else F.lit(False)
            above = column > F.lit(measure.highest).cast(measure.type) if measure.highest else F.lit(False)
            strange = F.isnan(column) if measure.type == "double" else F.lit(False)
            return below | above | strange
    assert_never(measure)


def _counted(check: Check, wrong: DataFrame) -> Found:
    rows = wrong.count()
    return Found(gate=check.gate, value=rows, sample=_sample(wrong) if not check.holds(rows) else ())


def _sample(rows: DataFrame) -> tuple[str, ...]:
    """A few rows as JSON, for the ledger."""
    lower = [name.lower() for name in rows.columns]  # as Spark compares them
    repeated = len(set(lower)) < len(lower)
    names = [f"{name}_{n}" if repeated else name for n, name in enumerate(rows.columns)]
    found = rows.limit(SAMPLE).toDF(*names)
    whole = F.to_json(F.struct(*(F.col(quoted(name)) for name in names)))
    return tuple(str(row[0]) for row in found.select(whole).collect())
