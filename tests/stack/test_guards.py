"""Every guard, switched off: the test that it is there for must fail, or that test would prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import TableRequirement

from lakehouse import plan, publish, settling, steps
from lakehouse.batch import PUBLISHED, TableWrite
from lakehouse.errors import LakehouseError
from lakehouse.ledger import batches, leases, taken_files
from lakehouse.naming import table_sql
from lakehouse.sample import Recipe
from lakehouse.steps import Attempt, GateFailed
from spark_jobs.tables import Branch
from tests.stack import tables, test_cut_publishes, test_faults, test_lost_answers, test_pipeline, test_publish
from tests.stack.shop import RunJob, Shop, in_session
from tests.stack.victim import PAST_BRANCHES

DAY = test_lost_answers.DAY
RECIPE = Recipe.of(0.05, 3, None)
BROKEN = (AssertionError, LakehouseError, pytest.fail.Exception)


def without(*refs: str) -> Callable[[Table, TableWrite], tuple[TableRequirement, ...]]:
    """A publish that does not assert where these refs are."""
    asserted = publish._requirements

    def requirements(found: Table, write: TableWrite) -> tuple[TableRequirement, ...]:
        left_out = {"main" if ref == "main" else write.branch for ref in refs}
        return tuple(one for one in asserted(found, write) if getattr(one, "ref", None) not in left_out)

    return requirements


def test_without_the_assertion_of_main_somebody_elses_row_is_lost(name, monkeypatch):
    monkeypatch.setattr(publish, "_requirements", without("main"))
    with pytest.raises(BROKEN):
        test_publish.test_a_row_that_somebody_else_committed_meanwhile_is_never_lost(name)
    assert 3 not in tables.ids(name)


def test_without_the_assertion_of_the_branch_an_unaudited_version_would_stay_unnoticed(name, monkeypatch):
    monkeypatch.setattr(publish, "_requirements", without("branch"))
    with pytest.raises(BROKEN):
        test_publish.test_a_branch_that_moved_after_its_audit_is_not_published(name)


@pytest.mark.parametrize(
    ("layer", "how"),
    [
        *(("bronze", "dropped"), ("silver", "dropped")),
        *(pytest.param("bronze", how, marks=pytest.mark.full) for how in (500, 502, 503, 504)),
    ],
)
def test_without_looking_for_its_own_success_a_publish_is_taken_for_failed(layer, how, shop, spark, stack, monkeypatch):
    monkeypatch.setattr(publish, "published", lambda *_: False)
    with pytest.raises(BROKEN):
        test_lost_answers.test_a_publish_whose_answer_is_lost_is_found_to_have_succeeded(
            layer, how, shop, spark, stack, monkeypatch
        )


def rows(shop: Shop) -> int:
    return test_lost_answers.answers.bronze_count(shop, DAY)


def doubled(shop: Shop, job: RunJob, attempt: Attempt, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit stops it, and then the ledger; with these guards off as well, every record is there twice."""
    with pytest.raises(GateFailed, match="batch_is_whole"):
        shop.run(shop.bronze, DAY, job, attempt)
    assert rows(shop) == expected
    monkeypatch.setattr(steps, "audit", lambda contract, handover, *_: handover)
    monkeypatch.setattr(steps, "_confirmed", lambda _: None)
    monkeypatch.setattr(steps, "_intend", lambda _: None)
    shop.run(shop.bronze, DAY, job, attempt.again())
    assert rows(shop) == 2 * expected


def test_without_the_ledger_of_taken_files_they_are_taken_twice(shop, spark, monkeypatch):
    expected = shop.deliver([DAY], RECIPE).bronze[DAY]
    shop.run(shop.bronze, DAY, in_session(spark))
    monkeypatch.setattr(taken_files, "untaken", lambda _, files: sorted(files, key=lambda file: file.uri))
    monkeypatch.setattr(taken_files, "known_content", lambda *_: {})
    doubled(shop, in_session(spark), Attempt("again", 1), expected, monkeypatch)


def test_without_looking_whether_another_try_stands_an_older_one_becomes_the_newest(tasks, spark, monkeypatch):
    monkeypatch.setattr(steps, "_confirmed", lambda _: None)
    monkeypatch.setattr(steps, "_intend", lambda _: None)
    with pytest.raises(BROKEN):
        test_cut_publishes.test_the_late_publish_of_another_try_changes_nothing(tasks, spark)


def test_with_tombstones_before_the_table_a_row_is_lost_where_a_publish_is_cut(tasks, spark, monkeypatch):
    monkeypatch.setattr(steps, "tombstone_table", lambda _: "none")
    with pytest.raises(AssertionError):
        test_cut_publishes.test_a_corrected_delete_brings_its_row_back_wherever_the_publish_was_cut(
            tasks, spark, monkeypatch, 3
        )
    assert tasks.rows("id") == [(2,), (3,)], "the first is gone"


def test_without_a_second_look_at_the_ledger_a_corrected_files_rows_are_left_out(tasks, spark, monkeypatch):
    monkeypatch.setattr(batches, "mark", lambda _: "the same")
    with pytest.raises(AssertionError):
        test_cut_publishes.test_a_correction_that_comes_while_silver_is_planned_is_in_it_or_waits(
            tasks, spark, monkeypatch
        )


def test_without_settling_what_a_killed_run_published_it_is_published_twice(shop, spark, monkeypatch):
    expected = shop.deliver([DAY], RECIPE).bronze[DAY]

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batches, "settle", killed)
        with pytest.raises(KeyboardInterrupt):
            shop.run(shop.bronze, DAY, in_session(spark), Attempt("run", 1))
    assert rows(shop) == expected
    monkeypatch.setattr(settling, "in_main", lambda _: False)
    doubled(shop, in_session(spark), Attempt("run", 2), expected, monkeypatch)


def test_without_settling_the_retry_of_a_run_that_was_killed_after_its_publish_fails(
    running, shop, victim, job, monkeypatch
):
    monkeypatch.setattr(settling, "in_main", lambda _: False)
    with pytest.raises(GateFailed, match="batch_is_whole"):
        test_faults.test_what_is_killed_at_any_cut_leaves_a_whole_state_and_its_retry_converges(
            "task", "after_publish", "bronze", running, shop, victim, job
        )


def test_without_a_branch_what_a_killed_run_left_behind_comes_to_main(running, shop, victim, job, monkeypatch):
    """Its commit is on its way while the retry is done; then it is let go."""
    monkeypatch.setenv(PAST_BRANCHES, "yes")
    with pytest.raises(BROKEN):
        test_faults.test_what_is_killed_at_any_cut_leaves_a_whole_state_and_its_retry_converges(
            "task", "after_data_files", "bronze", running, shop, victim, job
        )
    monkeypatch.delenv(PAST_BRANCHES)
    assert batches.recent(shop.bronze)[0].state == PUBLISHED, "the retry was done"


def one_branch_for_all(self: Branch) -> str:
    """Every try goes on where the one before was cut off."""
    self.name, self.made = "shared", True
    self.spark.sql(f"ALTER TABLE {table_sql(self.table)} CREATE BRANCH IF NOT EXISTS shared")
    return table_sql(self.table, self.name)


def test_without_a_branch_for_each_try_the_second_doubles_what_the_first_wrote(shop, spark, stack, monkeypatch):
    monkeypatch.setattr(Branch, "_target", one_branch_for_all)
    monkeypatch.setattr(steps, "drop_branches", lambda *_: None)
    monkeypatch.setattr(steps, "make_public", unpublished_at_first(steps.make_public))
    with pytest.raises(GateFailed, match="batch_is_whole"):
        test_lost_answers.test_a_write_whose_commit_to_the_branch_got_no_answer_is_tried_again_and_converges(
            "bronze", "dropped", shop, spark, stack
        )


def unpublished_at_first(then: Callable[..., Any]) -> Callable[..., Any]:
    """The first try ends before its publish, whether Iceberg found its commit or not."""

    def make_public(contract: Any, interval: Any, handover: Any, attempt: Attempt, run: Any) -> Any:
        return then(contract, interval, handover, attempt, run) if attempt.number > 1 else None

    return make_public


def test_without_knowing_which_batches_came_to_nothing_the_feed_has_their_changes_twice(
    running, shop, victim, job, monkeypatch
):
    monkeypatch.setattr(plan, "feed_state", lambda _: {})
    with pytest.raises(AssertionError):
        test_faults.test_what_is_killed_at_any_cut_leaves_a_whole_state_and_its_retry_converges(
            "task", "before_own", "silver", running, shop, victim, job
        )
    with pytest.raises(AssertionError):
        test_faults.answers.from_feed(shop)


def test_without_the_lease_two_runs_at_once_still_make_one_batch(shop, spark, monkeypatch):
    """The assertion of main keeps them apart; one of them may find its branch dropped by the other, and fail."""
    monkeypatch.setattr(leases, "acquire", lambda *_, **__: True)
    expected = shop.deliver([test_pipeline.DAYS[0]], RECIPE)
    with suppress(Exception):
        test_pipeline.at_once(shop, shop.bronze)
    shop.run(shop.bronze, test_pipeline.DAYS[0], in_session(spark))
    test_lost_answers.answers.whole(shop, shop.bronze, expected)


def test_without_starting_over_a_batch_is_lost_when_main_has_moved(stack, tmp_path, spark, monkeypatch):
    monkeypatch.setattr(steps, "MOST_REWRITES", 1)
    with pytest.raises(BROKEN):
        test_pipeline.test_a_row_committed_by_somebody_else_between_write_and_publish_is_kept(stack, tmp_path, spark)
