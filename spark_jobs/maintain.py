"""Maintain: one of Iceberg's own procedures, with the arguments that the plan gave."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from lakehouse.jobs import Maintained, MaintainJob
from lakehouse.naming import CATALOG


def maintain(spark: SparkSession, job: MaintainJob) -> Maintained:
    """Call the procedure and return its counters."""
    call = job.call
    values: dict[str, Any] = {"table": job.table}
    if call.older_than is not None:
        values["older_than"] = call.older_than
    if call.retain_last is not None:
        values["retain_last"] = call.retain_last
    if call.sort_order is not None:
        values |= {"strategy": "sort", "sort_order": call.sort_order}
    named = [f"{name} => :{name}" for name in values]
    if call.options:
        named.append("options => map(" + ", ".join(f":k{n}, :v{n}" for n in range(len(call.options))) + ")")
        for n, (key, value) in enumerate(call.options.items()):
            values |= {f"k{n}": key, f"v{n}": value}
    row = spark.sql(f"CALL {CATALOG}.system.{call.procedure}({', '.join(named)})", args=values).first()
    counters = row.asDict() if row else {}
    return Maintained(counters={name: value for name, value in counters.items() if isinstance(value, int)})
