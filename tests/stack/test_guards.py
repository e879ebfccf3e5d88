"""Every guard, switched off: the test that it is there for must fail, or that test would prove nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import TableRequirement

from lakehouse import plan, publish, steps
from lakehouse.batch import TableWrite
from lakehouse.errors import LakehouseError
from lakehouse.ledger import batches, leases, taken_files
from lakehouse.sample import Recipe
from lakehouse.steps import Attempt, GateFailed
from tests.stack import tables, test_lost_answers, test_pipeline, test_publish
from tests.stack.shop import RunJob, Shop, in_session

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


def test_without_looking_for_its_own_success_a_publish_is_taken_for_failed(shop, spark, stack, monkeypatch):
    monkeypatch.setattr(publish, "published", lambda *_: False)
    with pytest.raises(BROKEN):
        test_lost_answers.test_a_publish_whose_answer_is_lost_is_found_to_have_succeeded(
            "bronze", "dropped", shop, spark, stack, monkeypatch
        )


def rows(shop: Shop) -> int:
    return test_lost_answers.answers.bronze_count(shop, DAY)


def doubled(shop: Shop, job: RunJob, attempt: Attempt, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit stops it; with that guard off as well, every record is there twice."""
    with pytest.raises(GateFailed, match="batch_is_whole"):
        shop.run(shop.bronze, DAY, job, attempt)
    assert rows(shop) == expected
    monkeypatch.setattr(steps, "audit", lambda contract, handover, *_: handover)
    shop.run(shop.bronze, DAY, job, attempt.again())
    assert rows(shop) == 2 * expected


def test_without_the_ledger_of_taken_files_they_are_taken_twice(shop, spark, monkeypatch):
    expected = shop.deliver([DAY], RECIPE).bronze[DAY]
    shop.run(shop.bronze, DAY, in_session(spark))
    monkeypatch.setattr(taken_files, "untaken", lambda _, files: sorted(files, key=lambda file: file.uri))
    monkeypatch.setattr(taken_files, "known_content", lambda *_: {})
    doubled(shop, in_session(spark), Attempt("again", 1), expected, monkeypatch)


def test_without_settling_what_a_killed_run_published_it_is_published_twice(shop, spark, monkeypatch):
    expected = shop.deliver([DAY], RECIPE).bronze[DAY]

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batches, "settle", killed)
        with pytest.raises(KeyboardInterrupt):
            shop.run(shop.bronze, DAY, in_session(spark), Attempt("run", 1))
    assert rows(shop) == expected
    monkeypatch.setattr(plan, "_in_main", lambda _: False)
    doubled(shop, in_session(spark), Attempt("run", 2), expected, monkeypatch)


def test_without_the_lease_the_assertion_still_keeps_two_runs_at_once_apart(stack, tmp_path, spark, monkeypatch):
    monkeypatch.setattr(leases, "acquire", lambda *_, **__: True)
    test_pipeline.test_two_runs_of_one_interval_at_once_make_one_batch(stack, tmp_path, spark)


def test_without_starting_over_a_batch_is_lost_when_main_has_moved(stack, tmp_path, spark, monkeypatch):
    monkeypatch.setattr(steps, "MOST_REWRITES", 1)
    with pytest.raises(BROKEN):
        test_pipeline.test_a_row_committed_by_somebody_else_between_write_and_publish_is_kept(stack, tmp_path, spark)
