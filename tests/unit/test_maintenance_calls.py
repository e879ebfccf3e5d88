"""What a maintenance job asks of Spark: values as parameters, and for each procedure only what it takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row

from lakehouse.jobs import Call, MaintainJob
from spark_jobs.maintain import _answer, _arguments

OLD = datetime(2026, 1, 1, tzinfo=UTC)
ORPHANS = (("s3://lake/gold/x/data/a.parquet", OLD),)


def asked(**call: Any) -> tuple[list[str], dict[str, Any]]:
    return _arguments(MaintainJob(key="k", session_id="s", table="gold.x", call=Call(**call)))


@pytest.mark.parametrize(
    ("call", "values"),
    [
        ({"procedure": "rewrite_data_files"}, {"strategy": "binpack"}),
        (
            {"procedure": "rewrite_data_files", "sort_order": "zorder(`a`)", "where": "day = 1"},
            {"strategy": "sort", "sort_order": "zorder(`a`)", "where": "day = 1"},
        ),
        ({"procedure": "rewrite_manifests"}, {"use_caching": False}),
        (
            {"procedure": "expire_snapshots", "older_than": OLD, "retain_last": 1},
            {"older_than": OLD, "retain_last": 1},
        ),
        (
            {"procedure": "remove_orphan_files", "older_than": OLD, "dry_run": True},
            {"older_than": OLD, "dry_run": True, "prefix_listing": True},
        ),
        (
            {"procedure": "remove_orphan_files", "older_than": OLD, "dry_run": False, "files": ORPHANS},
            {"older_than": OLD, "dry_run": False, "file_list_view": "lakehouse_listed"},
        ),
    ],
)
def test_each_procedure_gets_its_arguments_as_parameters(call, values):
    named, given = asked(**call)
    assert given == {"table": "gold.x", **values}
    assert named == [f"{name} => :{name}" for name in given]


@pytest.mark.parametrize("more", [{}, {"dry_run": False}, {"files": ORPHANS}])
def test_orphans_are_only_listed_unless_it_is_said_that_they_go_and_which(more):
    assert asked(procedure="remove_orphan_files", older_than=OLD, **more)[1]["dry_run"] is True


def test_options_are_parameters_too():
    named, given = asked(procedure="rewrite_data_files", options={"rewrite-all": "'; DROP"})
    assert named[-1] == "options => map(:k0, :v0)"
    assert (given["k0"], given["v0"]) == ("rewrite-all", "'; DROP")


def test_files_that_iceberg_could_not_rewrite_are_handed_on():
    """It throws nothing: only the answer tells of them."""
    told = {"rewritten_data_files_count": 9, "failed_data_files_count": 3}
    assert _answer([Row(**told)]).counters == told
