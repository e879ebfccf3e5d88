"""The score: full for a healthy table, half of a part's points at its threshold, with a reason for each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.contracts.keeping import Maintenance, Retention
from lakehouse.health.model import TableHealth
from lakehouse.health.score import concerns, score

NOW = datetime(2026, 6, 1, tzinfo=UTC)
POLICY = Maintenance()
RETENTION = Retention(snapshots="7d")  # type: ignore[arg-type]
GIGABYTE = 1 << 30
HEALTHY = TableHealth(
    files=100,
    bytes=12 * GIGABYTE,
    rows=1_000,
    median_bytes=120 << 20,
    delete_files=0,
    snapshots=3,
    oldest_snapshot_ms=int((NOW - timedelta(days=2)).timestamp() * 1000),
    manifests=1,
)


def points(**changed: object) -> dict[str, float]:
    found = score(HEALTHY.model_copy(update=changed), POLICY, RETENTION, NOW)
    return {part.name: part.points for part in found.parts}


def test_a_healthy_table_has_all_points():
    assert score(HEALTHY, POLICY, RETENTION, NOW).total == 100
    assert concerns(HEALTHY, POLICY) == []


@pytest.mark.parametrize(
    ("name", "at_limit", "far_past"),
    [
        ("small files", {"small_files": 30}, {"small_files": 99}),
        ("deletes", {"rows": 900, "deleted_rows": 100}, {"rows": 500, "deleted_rows": 500}),
        ("reading", {"amplification": 10.0}, {"amplification": 300.0}),
        ("file size", {"median_bytes": 32 << 20}, {"median_bytes": 0}),
        (
            "history",
            {"snapshots": 20, "oldest_snapshot_ms": int((NOW - timedelta(days=14)).timestamp() * 1000)},
            {"snapshots": 20, "oldest_snapshot_ms": int((NOW - timedelta(days=90)).timestamp() * 1000)},
        ),
        ("lists of files", {"manifests": 21}, {"manifests": 900}),
    ],
)
def test_each_part_has_half_its_points_at_its_threshold_and_none_far_past_it(name, at_limit, far_past):
    full = points()[name]
    assert points(**at_limit)[name] == full / 2
    assert points(**far_past)[name] == 0
    others = {key: value for key, value in points(**far_past).items() if key != name}
    assert others == {key: value for key, value in points().items() if key != name}


def test_a_small_table_may_have_small_files():
    small = {"bytes": 5 << 20, "median_bytes": 1 << 10}
    assert points(**small)["file size"] == 10
    assert concerns(HEALTHY.model_copy(update=small), POLICY) == []


def test_old_versions_that_are_kept_by_number_are_not_overdue():
    old = int((NOW - timedelta(days=900)).timestamp() * 1000)
    assert points(snapshots=5, oldest_snapshot_ms=old)["history"] == 10
    assert points(snapshots=6, oldest_snapshot_ms=old)["history"] == 0


def test_regulated_datasets_keep_their_versions_for_years():
    old = int((NOW - timedelta(days=900)).timestamp() * 1000)
    kept = Retention(snapshots="7d", regulated=True)  # type: ignore[arg-type]
    worn = HEALTHY.model_copy(update={"snapshots": 20, "oldest_snapshot_ms": old})
    assert score(worn, POLICY, kept, NOW).total == 100


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"small_files": 31}, "small_files"),
        ({"median_bytes": 60 << 20}, "median"),
        ({"delete_bytes": 2 * GIGABYTE}, "deletes"),
        ({"amplification": 10.1}, "amplification"),
    ],
)
def test_what_is_past_its_threshold_is_told(changed, kind):
    (found,) = concerns(HEALTHY.model_copy(update=changed), POLICY)
    assert found.kind == kind


def test_a_handful_of_files_is_no_concern():
    assert concerns(HEALTHY.model_copy(update={"files": 4, "small_files": 3}), POLICY) == []
