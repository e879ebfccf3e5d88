"""No step rewrites more than the plan says, no window more than its budget, and the table is healthy in the end."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from lakehouse.contracts.keeping import Maintenance
from lakehouse.health.measured import SMALL
from lakehouse.health.model import TableHealth
from lakehouse.maintenance.rewrite_step import Scope
from lakehouse.maintenance.rewriting import rewrites
from lakehouse.maintenance.step import Step
from tests.unit.iceberg_planner import TARGET, File, measured, packed, rewritten

NOW = datetime(2026, 6, 1, tzinfo=UTC)
MEGABYTE = 1 << 20
SLICE = 512 * MEGABYTE


def files(day: int, count: int, megabytes: int, deleted: int = 0, bucket: int | None = None) -> list[File]:
    name = f"day={day}" + ("" if bucket is None else f"/id_bucket={bucket}")
    return [File(name, f"day = {day}", megabytes * MEGABYTE, deleted)] * count


ONE_WITH_DELETES = [
    *files(0, 40, 2, deleted=20),
    *(one for day in range(1, 9) for one in (*files(day, 40, 128, deleted=5), *files(day, 5, 2))),
]
MOSTLY_GONE = [*files(1, 6, 1), *files(1, 40, 128, deleted=8), *files(1, 3, 128, deleted=60), *files(1, 90, 128)]
OVERSIZED = [*files(1, 5, 1), *files(1, 100, 400)]
HUGE = [*files(1, 1_000, 1), *files(1, 10, 1_024)]
BUCKETS = [one for day in (1, 2) for bucket in range(16) for one in files(day, 10, 40, bucket=bucket)]
ONE_BUCKET = [*files(1, 10, 2, bucket=0), *files(1, 100, 128, 3, bucket=0), *files(1, 100, 128, 40, bucket=1)]
MANY_SMALL = [one for day in range(20) for one in files(day, 200, 3)]
AT_ONCE, IN_TURNS = Maintenance(), Maintenance(budget_mb=4_096)
SCENARIOS = {
    "one partition with many deletes beside eight with few": (ONE_WITH_DELETES, IN_TURNS),
    "files that are mostly deleted in a partition that is not": (MOSTLY_GONE, IN_TURNS),
    "files that were written for a larger target": (OVERSIZED, IN_TURNS),
    "a thousand small files beside ten huge ones": (HUGE, AT_ONCE),
    "all buckets of a day have one condition": (BUCKETS, IN_TURNS),
    "one bucket of a day has many deletes": (ONE_BUCKET, IN_TURNS),
    "twenty days of small files": (MANY_SMALL, IN_TURNS),
}


def window(found: list[File], policy: Maintenance) -> list[Step]:
    facts = {"files": len(found), "bytes": 0, "rows": 0, "delete_files": 0, "snapshots": 1, "oldest_snapshot_ms": None}
    health = TableHealth.model_validate({**facts, "partitions": measured(found)})
    return rewrites(Scope("silver.orders", policy, sort=False), health, None, NOW)[0]


def carried_out(found: list[File], steps: list[Step]) -> tuple[list[File], list[int]]:
    """The files after these steps, and what each of them has read."""
    read = []
    for step in steps:
        assert step.call is not None
        found, bytes_read = rewritten(found, step.call)
        read.append(bytes_read)
    return found, read


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("found", "policy"), SCENARIOS.values(), ids=SCENARIOS)
def test_a_step_rewrites_no_more_than_it_says_and_a_window_no_more_than_its_budget(found, policy, seed):
    """In whichever order Iceberg meets the files; and nothing is left to do after some windows.

    Sizes are about: what one part leaves over is larger than the files that the next one was planned for.
    """
    found = Random(seed).sample(found, len(found))
    for _ in range(30):
        steps = window(found, policy)
        if not steps:
            break
        before, (found, read) = found, carried_out(found, steps)
        for step, took in zip(steps, read, strict=True):
            assert took <= 1.25 * SLICE or "cannot be cut into slices of 512 MB" in step.does
            assert took <= max(1.25 * SLICE, 2 * max(one.bytes for one in before)), "two files at least"
        assert sum(read) <= 1.1 * policy.budget_mb * MEGABYTE
    assert window(found, policy) == []


@pytest.mark.parametrize("count", [5, 9, 20])
@pytest.mark.parametrize("megabytes", [1, 60, 70, 95])
def test_a_table_whose_target_is_larger_than_a_slice_gets_healthy_too(count, megabytes):
    """In bins of a slice no two of these files would meet, and of two of them two would be made again."""
    found, policy = files(1, count, megabytes), Maintenance(slice_mb=100)
    for _ in range(9):
        found, _ = carried_out(found, window(found, policy))
    assert window(found, policy) == []
    assert len(found) < count


@pytest.mark.parametrize(
    ("sizes", "left"),
    [([77, 77], 2), ([70, 70], 1), ([10, 95], 1), ([95, 95, 95], 3), ([77, 77, 77], 2), ([90, 90, 90], 2),
     ([77, 77, 77, 77], 3), ([77, 77, 300], 4)],
)  # fmt: skip
def test_small_files_are_packed_where_that_leaves_fewer_or_others_are_cut_up(sizes, left):
    found, policy = [one for size in sizes for one in files(1, 1, size)], Maintenance(min_input_files=2)
    assert bool(window(found, policy)) is (left != len(sizes))
    found, _ = carried_out(found, window(found, policy))
    assert len(found) == left
    assert window(found, policy) == []


def test_small_files_that_cannot_become_fewer_are_packed_for_their_deletes_and_dropped_columns():
    policy, dropped = Maintenance(min_input_files=2), File("day=1", "day = 1", 77 * MEGABYTE, dropped=True)
    for found in (files(1, 2, 77, deleted=20), [dropped] * 2):
        after, _ = carried_out(found, window(found, policy))
        assert (len(after), window(after, policy)) == (2, [])


@pytest.mark.parametrize("least", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("seed", range(30))
def test_every_setting_comes_to_rest_whatever_the_sizes_and_leaves_nothing_that_packing_would_lessen(least, seed):
    """In whichever order Iceberg meets the files, which may be another one at each step."""
    chance = Random(100 * least + seed)
    slice_mb, budget_mb = chance.choice([1, 64, 128, 200, 384, 512, 1_024]), chance.choice([1, 600, 51_200])
    policy = Maintenance(min_input_files=least, slice_mb=slice_mb, budget_mb=budget_mb)
    lowest, highest = chance.choice([(65, 95), (1, 10), (1, 100), (1, 300), (200, 600)])
    found = [
        one
        for day in range(chance.choice([1, 3]))
        for _ in range(chance.choice([2, 3, 4, 9, 20]))
        for one in files(day, 1, chance.randint(lowest, highest), deleted=chance.choice([0] * 9 + [50]))
    ]
    for _ in range(99):
        if not (steps := window(found, policy)):
            break
        for step in steps:
            found, _ = carried_out(chance.sample(found, len(found)), [step])
    assert window(found, policy) == []
    for day in {one.name for one in found}:
        small = [one for one in found if one.name == day and one.bytes < SMALL * TARGET]
        assert len(small) < least or len(packed(small)) >= len(small)
