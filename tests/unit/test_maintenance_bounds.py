"""No step rewrites more than the plan says, no window more than its budget, and the table is healthy in the end."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from lakehouse.contracts.keeping import Maintenance
from lakehouse.health.measured import LARGE, SMALL
from lakehouse.health.model import TableHealth
from lakehouse.jobs import Call
from lakehouse.maintenance.rewrite_step import Scope
from lakehouse.maintenance.rewriting import rewrites
from lakehouse.maintenance.step import Step
from tests.unit.iceberg_planner import CUT, TARGET, UNCUT, File, measured, packed, rewritten

NOW = datetime(2026, 6, 1, tzinfo=UTC)
MEGABYTE = 1 << 20
SLICE = 512 * MEGABYTE


def files(
    day: int, count: int, megabytes: int, deleted: int = 0, bucket: int | None = None, row_group: int = CUT
) -> list[File]:
    name = f"day={day}" + ("" if bucket is None else f"/id_bucket={bucket}")
    return [File(name, f"day = {day}", megabytes * MEGABYTE, deleted, row_group=row_group)] * count


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


def facts(found: list[File]) -> TableHealth:
    given = {"files": len(found), "bytes": 0, "rows": 0, "delete_files": 0, "snapshots": 1, "oldest_snapshot_ms": None}
    return TableHealth.model_validate({**given, "partitions": measured(found)})


def window(found: list[File], policy: Maintenance) -> list[Step]:
    return rewrites(Scope("silver.orders", policy, sort=True), facts(found), None, NOW)[0]


def carried_out(found: list[File], steps: list[Step], row_group: int = CUT) -> tuple[list[File], list[int]]:
    """The files after these steps, and what each of them has read."""
    read = []
    for step in steps:
        assert step.call is not None
        found, bytes_read = rewritten(found, step.call, row_group)
        read.append(bytes_read)
    return found, read


def at_rest(found: list[File], policy: Maintenance, row_group: int = CUT, order: Random | None = None) -> list[File]:
    """The files once nothing is left to do; in an order of Iceberg's own at each step."""
    for _ in range(400):
        if not (steps := window(found, policy)):
            return found
        for step in steps:
            found = order.sample(found, len(found)) if order else found
            found, _ = carried_out(found, [step], row_group)
    raise AssertionError(f"{len(found)} files are written again in each window")


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


@pytest.mark.parametrize(
    ("count", "megabytes", "row_group", "made"),
    [(5, 90, UNCUT, 5), (5, 70, UNCUT, 5), (4, 77, UNCUT, 4), (20, 80, UNCUT, 20), (5, 90, CUT, 4), (2, 63, UNCUT, 1)],
)
def test_iceberg_makes_of_files_what_was_measured(count, megabytes, row_group, made):
    """By its own TableScanUtil.planTaskGroups, with the split size that a rewrite asks for."""
    call = Call(procedure="rewrite_data_files")
    assert len(packed(files(1, count, megabytes, row_group=row_group), call)) == made


@pytest.mark.parametrize("row_group", [CUT, UNCUT])
@pytest.mark.parametrize("count", [5, 9, 20])
@pytest.mark.parametrize("megabytes", [1, 30, 60, 63, 64, 70, 95])
def test_a_table_whose_target_is_larger_than_a_slice_gets_healthy_too(count, megabytes, row_group):
    """In bins of a slice no two of these files would meet."""
    found, policy = files(1, count, megabytes, row_group=row_group), Maintenance(slice_mb=100)
    left = at_rest(found, policy, row_group)
    assert (len(left) < count) is (megabytes < 64)


@pytest.mark.parametrize(
    ("sizes", "left"),
    [([77, 77], 2), ([63, 63], 1), ([10, 95], 2), ([64, 64, 64, 64], 4), ([63, 63, 63], 2), ([10, 10, 95], 2)],
)
@pytest.mark.parametrize("row_group", [CUT, UNCUT])
def test_only_files_of_less_than_half_the_target_are_packed_for_any_two_of_them_become_one(sizes, left, row_group):
    found = [one for size in sizes for one in files(1, 1, size, row_group=row_group)]
    policy = Maintenance(min_input_files=2)
    assert bool(window(found, policy)) is (sum(size < 64 for size in sizes) > 1)
    assert len(at_rest(found, policy)) == left


def test_files_of_more_than_half_the_target_are_not_taken_along():
    """By itself Iceberg takes those below three quarters, and meets them first here."""
    found = [*files(1, 40, 90, row_group=UNCUT), *files(1, 6, 1)]
    (step,) = window(found, Maintenance())
    left, read = carried_out(found, [step])
    assert (read, len(left), window(left, Maintenance())) == ([6 * MEGABYTE], 41, [])


@pytest.mark.parametrize("row_group", [CUT, UNCUT])
def test_large_files_are_cut_up_with_small_ones_be_it_by_the_writer(row_group):
    found = [one for size in (1, 2, 3, 400) for one in files(1, 1, size, row_group=row_group)]
    left = at_rest(found, Maintenance(min_input_files=2), row_group)
    assert max(one.bytes for one in left) <= LARGE * TARGET
    assert sum(one.bytes for one in left) == 406 * MEGABYTE


def test_files_that_cannot_become_fewer_are_written_again_for_their_deletes_and_dropped_columns():
    policy, dropped = Maintenance(min_input_files=2), File("day=1", "day = 1", 77 * MEGABYTE, dropped=True)
    for found in (files(1, 2, 77, deleted=20), [dropped] * 2):
        after, _ = carried_out(found, window(found, policy))
        assert (len(after), window(after, policy)) == (2, [])


def test_of_full_files_only_as_many_are_counted_as_have_deletes_of_their_own():
    """Iceberg takes one file: the others need no window's budget."""
    found = [*files(1, 99, 128), *files(1, 1, 128, deleted=100)]
    policy = Maintenance(deleted_share="0%")
    (step,) = window(found, policy)
    assert step.bytes == 128 * MEGABYTE
    after, (read,) = carried_out(found, [step])
    assert (read, window(after, policy)) == (128 * MEGABYTE, [])
    shared = [one.model_copy(update={"deletes_of_one_file": 0}) for one in measured(found)]
    health = facts(found).model_copy(update={"partitions": tuple(shared)})
    steps, _ = rewrites(Scope("silver.orders", policy, sort=False), health, None, NOW)
    assert sum(one.bytes for one in steps) == 100 * 128 * MEGABYTE, "which files one of theirs is about is not known"


@pytest.mark.parametrize("least", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("row_group", [CUT, UNCUT, 45 * MEGABYTE])
@pytest.mark.parametrize("seed", range(20))
def test_every_setting_comes_to_rest_whatever_the_sizes_and_leaves_nothing_that_packing_would_lessen(
    least, row_group, seed
):
    """In whichever order Iceberg meets the files, wherever they can be cut, and if what it writes cannot be cut."""
    chance = Random(1_000 * least + seed)
    slice_mb, budget_mb = chance.choice([1, 64, 128, 200, 384, 512, 1_024]), chance.choice([1, 600, 51_200])
    sort = chance.choice([{}, {"sort_by": ["order_id"]}])
    policy = Maintenance(min_input_files=least, slice_mb=slice_mb, budget_mb=budget_mb, **sort)
    lowest, highest = chance.choice([(65, 95), (1, 10), (1, 63), (1, 100), (1, 300), (200, 600)])
    found = [
        one
        for day in range(chance.choice([1, 3]))
        for _ in range(chance.choice([2, 3, 4, 9, 20, 40]))
        for one in files(day, 1, chance.randint(lowest, highest), chance.choice([0] * 9 + [50]), row_group=row_group)
    ]
    found = at_rest(found, policy, row_group, chance)
    for day in {one.name for one in found}:
        assert sum(one.name == day and one.bytes < SMALL * TARGET for one in found) < least
