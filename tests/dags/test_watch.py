"""The DAG that watches: it calls the evaluator, and is red only when something cannot be seen or told."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.watch import Look

pytestmark = pytest.mark.usefixtures("airflow_home")


@pytest.fixture
def looks(monkeypatch) -> Any:
    """Runs the task on what the evaluator has found."""
    from lakehouse_airflow import watch

    def run(found: Look) -> None:
        monkeypatch.setattr(watch, "look", lambda by: found if by == "dag" else None)
        watch.WatchOperator(task_id="look").execute({})

    return run


def test_misses_are_told_and_do_not_make_the_watch_red(looks, capfd):
    looks(Look(opened=2, closed=1))
    assert "2 missed, 1 arrived or withdrawn" in "".join(capfd.readouterr())


def test_what_cannot_be_seen_makes_the_watch_red_in_one_sentence(looks, capfd):
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"^gold.sales cannot be seen: no; and 1 more$"):
        looks(Look(problems=("silver.orders cannot be seen: no", "gold.sales cannot be seen: no")))
    assert "silver.orders cannot be seen: no" in "".join(capfd.readouterr())


def test_one_problem_is_told_alone(looks):
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"^the ledger does not answer$"):
        looks(Look(problems=("the ledger does not answer",)))
