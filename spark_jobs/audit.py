"""Audit: the written version, by its snapshot id, against its contract."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.fields import Gate
from lakehouse.contracts.model import AnyContract, Bronze, Silver
from lakehouse.jobs import Audited, AuditJob, GateResult
from spark_jobs import tables
from spark_jobs.reach import Keys

_BECAME = ("inserted", "updated", "deleted", "unchanged", "superseded", "duplicate", "quarantined")


def audit(spark: SparkSession, job: AuditJob) -> Audited:
    """Every check that the layer asks for, and every gate of the contract."""
    head = tables.version(spark, job.contract.dataset, job.head.head)
    return Audited(
        gates=(
            *_balance(job),
            *_batch_is_whole(head, job),
            *_rules_hold(_own_rows(head, job), job.contract),
            *(_gate(spark, head, gate, job) for gate in _gates(job.contract)),
        )
    )


def _gates(contract: AnyContract) -> list[Gate]:
    """The contract's gates; a key is unique whether or not one of them says so."""
    gates = list(contract.gates)
    if isinstance(contract, Silver):
        unique = contract.key or (("_interval_start", *contract.duplicate_by) if contract.duplicate_by else ())
        if unique and not any(gate.unique == unique for gate in gates):
            gates.append(Gate(unique=unique))
    return gates


def _balance(job: AuditJob) -> list[GateResult]:
    if not isinstance(job.contract, Silver):
        return []
    became = sum(job.counts.get(name, 0) for name in _BECAME)
    rows_in = job.counts["rows_in"]
    return [GateResult(gate="balance", passed=became == rows_in, found=f"{rows_in} rows in, {became} accounted for")]


def _batch_is_whole(head: DataFrame, job: AuditJob) -> list[GateResult]:
    """Bronze: each record of the batch's files is there once."""
    if not isinstance(job.contract, Bronze):
        return []
    mine = head.where(F.col("_batch_id") == job.batch_id)
    rows, places = mine.agg(F.count("*"), F.count_distinct("_source_file", "_source_offset")).first() or (0, 0)
    found = f"{rows} rows from {places} places, {job.counts['rows_in']} written"
    return [GateResult(gate="batch_is_whole", passed=rows == places == job.counts["rows_in"], found=found)]


def _own_rows(head: DataFrame, job: AuditJob) -> DataFrame:
    """The rows that the batch wrote, where rows say so; those that were there before were audited before."""
    return head.where(F.col("_batch_id") == job.batch_id) if "_batch_id" in head.columns else head


def _suspects(head: DataFrame, unique: Sequence[str], job: AuditJob, *, held: bool) -> DataFrame:
    """The values among which some may be repeated: if none was before, those that the batch wrote."""
    values, contract = head.select(*unique), job.contract
    if not held or not isinstance(contract, Silver):
        return values
    if any(name in contract.columns and not contract.columns[name].required for name in unique):
        return values  # rows without a value are not found by it
    return Keys(_own_rows(head, job), unique).among(values)


def _rules_hold(head: DataFrame, contract: AnyContract) -> list[GateResult]:
    """Required columns and checks, in one pass."""
    if isinstance(contract, Bronze):
        return []
    rules = {f"{n}.required": F.col(n).isNull() for n, c in contract.columns.items() if c.required}
    rules |= {f"{n}.check": ~F.expr(c.check) for n, c in contract.columns.items() if c.check}
    if not rules:
        return []
    broken: Sequence[int] = head.agg(*(F.count_if(condition) for condition in rules.values())).first() or []
    return [GateResult(gate=g, passed=n == 0, found=f"{n} rows break it") for g, n in zip(rules, broken, strict=True)]


def _gate(spark: SparkSession, head: DataFrame, gate: Gate, job: AuditJob) -> GateResult:
    if gate.unique:
        suspects = _suspects(head, gate.unique, job, held=gate.name in job.held)
        repeated = suspects.groupBy(*gate.unique).count().where("count > 1").count()
        return GateResult(gate=gate.name, passed=repeated == 0, found=f"{repeated} values occur more than once")
    if gate.row_count:
        rows = head.count()
        found = f"{rows} rows, at least {gate.row_count.at_least} wanted"
        return GateResult(gate=gate.name, passed=rows >= gate.row_count.at_least, found=found)
    head.createOrReplaceTempView("head")
    rows = spark.sql(gate.sql or "").count()
    return GateResult(gate=gate.name, passed=rows == 0, found=f"the query returns {rows} rows")
