"""Maintain: one of Iceberg's own procedures, with the arguments that the plan gave."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Row, SparkSession

from lakehouse.jobs import Call, Maintained, MaintainJob
from lakehouse.naming import CATALOG

_ORPHAN = "orphan_file_location"
_LISTED = "lakehouse_listed"


def maintain(spark: SparkSession, job: MaintainJob) -> Maintained:
    """Call the procedure and return what it says."""
    if job.call.files:
        listed = spark.createDataFrame(list(job.call.files), "file_path string, last_modified timestamp")
        listed.createOrReplaceTempView(_LISTED)
    named, values = _arguments(job)
    return _answer(spark.sql(f"CALL {CATALOG}.system.{job.call.procedure}({', '.join(named)})", args=values).collect())


def _arguments(job: MaintainJob) -> tuple[list[str], dict[str, Any]]:
    """The procedure's arguments as SQL, and the values of their parameters."""
    call = job.call
    given = {"where": call.where, "older_than": call.older_than, "retain_last": call.retain_last}
    values = {"table": job.table, **{name: value for name, value in given.items() if value is not None}, **_own(call)}
    named = [f"{name} => :{name}" for name in values]
    if call.options:
        named.append("options => map(" + ", ".join(f":k{n}, :v{n}" for n in range(len(call.options))) + ")")
        for n, (key, value) in enumerate(call.options.items()):
            values |= {f"k{n}": key, f"v{n}": value}
    return named, values


def _own(call: Call) -> dict[str, Any]:
    """What only one of the procedures takes."""
    match call.procedure:
        case "rewrite_data_files":
            return {"strategy": "sort", "sort_order": call.sort_order} if call.sort_order else {"strategy": "binpack"}
        case "rewrite_manifests":
            return {"use_caching": False}
        case "remove_orphan_files":
            if call.files and call.dry_run is False:
                return {"dry_run": False, "file_list_view": _LISTED}
            # Without prefix_listing it would look for a Hadoop file system of the scheme s3.
            return {"dry_run": True, "prefix_listing": True}
        case _:
            return {}


def _answer(rows: list[Row]) -> Maintained:
    """A procedure answers with one row of counters, or with a row for each file."""
    found = [row.asDict() for row in rows]
    if found and _ORPHAN in found[0]:
        return Maintained(counters={"files": len(found)}, files=tuple(row[_ORPHAN] for row in found))
    counters = found[0] if found else {}
    return Maintained(counters={name: value for name, value in counters.items() if isinstance(value, int)})
