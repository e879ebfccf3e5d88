"""Backfills on the real stack: `airflow dags backfill` beside daily runs, and `lakehouse backfill` across layers."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from lakehouse.backfill.airflow import Backfills
from lakehouse.backfill.days import listed
from lakehouse.catalog import coverage, table
from lakehouse.ledger import batches, leases
from lakehouse.naming import dag_id
from lakehouse.sample import Recipe
from lakehouse.settings import settings
from tests.oracle import Result, oracle
from tests.stack import answers
from tests.stack.harness import LAKEHOUSE, eventually
from tests.stack.shop import Shop, interval
from tests.stack.tables import head

pytestmark = pytest.mark.timeout(3600)

FIRST = date(2026, 1, 1)
RECIPE = Recipe.of(0.1, 5, None)
MINUTES = 60


def days(count: int, first: date = FIRST) -> list[date]:
    return [first + timedelta(n) for n in range(count)]


@pytest.fixture(scope="module")
def contracts(airflow) -> Path:
    return settings().contracts


@pytest.fixture(scope="module")
def api(airflow) -> Iterator[Backfills]:
    with Backfills(airflow) as session:
        yield session


def opened(contracts: Path, api: Backfills, first: date, last: date) -> Shop:
    """A shop whose schedule has the intervals from `first` to `last`; Airflow knows its DAGs, all are paused."""
    shop = Shop.open(contracts, start=f"{first}\nend: {last + timedelta(1)}")
    wanted = {dag_id(dataset) for dataset in shop.datasets}
    eventually(lambda: wanted <= api.dags(), 240, "Airflow shows the new contracts' DAGs")
    return shop


def unpause(shop: Shop, api: Backfills) -> None:
    for dataset in shop.datasets:
        api.unpause(dag_id(dataset))


def states(api: Backfills, dataset: str, of: Sequence[date]) -> list[str]:
    found = api.runs_by_start(dag_id(dataset), interval(of[0]).start, interval(of[-1]).start)
    return [found[interval(day).start].state if interval(day).start in found else "none" for day in of]


def all_succeeded(api: Backfills, shop: Shop, of: Sequence[date]) -> bool:
    found = {dataset: states(api, dataset, of) for dataset in shop.datasets}
    assert not any("failed" in one for one in found.values()), found
    return all(one == ["success"] * len(of) for one in found.values())


def started(running, *words: str) -> subprocess.Popen[str]:
    """A command as a user would start it, in a session of its own so that it can be interrupted."""
    # Tests that were started in the background ignore Ctrl-C, and so would all that they start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [LAKEHOUSE, *words],
            env={**os.environ, **running.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def ended(process: subprocess.Popen[str], minutes: int = 15) -> tuple[int, str]:
    told, errors = process.communicate(timeout=minutes * MINUTES)
    return process.returncode, told + errors


def window(of: Sequence[date]) -> tuple[str, str, str, str]:
    return "-s", str(of[0]), "-e", str(of[-1])


def airflow_backfill(dataset: str, of: Sequence[date], *options: str) -> tuple[str, ...]:
    """What an operator types."""
    return "airflow", "dags", "backfill", *window(of), *options, dag_id(dataset)


def equal_to(shop: Shop, expected: Result) -> bool:
    assert answers.silver(shop) == expected.silver
    assert answers.quarantine(shop) == sorted(expected.quarantine)
    assert answers.gold(shop) == sorted(expected.gold, key=repr)
    return True


def change(contracts: Path, dataset: str, line: str) -> None:
    """Add a line to a contract."""
    layer, name = dataset.split(".")
    file = contracts / layer / f"{name}.yaml"
    file.write_text(f"{file.read_text()}{line}\n")


def take_back(contracts: Path, dataset: str, line: str) -> None:
    layer, name = dataset.split(".")
    file = contracts / layer / f"{name}.yaml"
    file.write_text(file.read_text().removesuffix(f"{line}\n"))


def gate_against(day: date) -> str:
    return f"gates: [{{sql: \"SELECT 1 FROM head WHERE _ingestion_date = DATE'{day}'\"}}]"


@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.full)])
def test_days_beside_the_daily_run_two_at_a_time_give_the_oracles_tables(count, running, contracts, api):
    past, today = days(count), FIRST + timedelta(count)
    shop = opened(contracts, api, today, today)
    files = [(day, key, data) for day in [*past, today] for key, data in shop.files(day, RECIPE)]
    shop.put((key, data) for day, key, data in files if day != today)
    unpause(shop, api)
    eventually(lambda: states(api, shop.bronze, [today]) == ["running"], 120, "the daily run waits for its files")

    going = started(running, *airflow_backfill(shop.bronze, past, "--max-active-runs", "2"))
    eventually(lambda: "success" in states(api, shop.bronze, past), 300, "the first day of the backfill has run")
    shop.put((key, data) for day, key, data in files if day == today)
    code, told = ended(going)
    assert code == 0, told
    assert max(int(found) for found in re.findall(r"(\d+) running", told)) == min(2, count)
    for dataset in (shop.silver, shop.gold):
        code, told = ended(started(running, *airflow_backfill(dataset, past, "--max-active-runs", "2")))
        assert code == 0, told
    eventually(lambda: all_succeeded(api, shop, [*past, today]), 600, "the daily runs have ended")
    assert equal_to(shop, oracle(files))

    before = shop.state()
    for dataset in shop.datasets:
        code, told = ended(started(running, *airflow_backfill(dataset, past, "--reset-dagruns", "-y")))
        assert code == 0, told
        assert states(api, dataset, past) == ["success"] * count
    assert shop.state() == before
    shop.close()


@pytest.fixture(scope="module")
def quiet(contracts, api) -> Iterator[Shop]:
    """A shop whose schedule has not begun, so that nothing but a backfill runs it; only bronze is not paused."""
    shop = opened(contracts, api, date(2099, 1, 1), date(2099, 1, 1))
    api.unpause(dag_id(shop.bronze))
    yield shop
    shop.close()


def test_what_cannot_run_is_refused_in_one_sentence_and_ctrl_c_leaves_it_running(running, quiet, api):
    one, two = days(1), days(2)

    def refused(dataset: str, *options: str) -> str:
        code, told = ended(started(running, *airflow_backfill(dataset, one, *options)))
        assert code == 1, told
        (line,) = [line for line in told.splitlines() if line.startswith("airflow dags backfill: ")]
        return line

    assert f"airflow dags unpause {dag_id(quiet.silver)}" in refused(quiet.silver)
    assert "--task-regex is gone" in refused(quiet.bronze, "-t", "write")
    code, told = ended(started(running, *airflow_backfill(quiet.bronze, two, "--dry-run")))
    assert code == 0, told
    assert states(api, quiet.bronze, two) == ["none", "none"]

    going = started(running, *airflow_backfill(quiet.bronze, one))
    eventually(lambda: states(api, quiet.bronze, one) == ["running"], 120, "the run waits for its files")
    os.killpg(going.pid, signal.SIGINT)
    code, told = ended(going)
    assert code == 130, told
    assert f"airflow dags list-runs {dag_id(quiet.bronze)}" in told
    assert "still running, and a DAG has one at a time" in refused(quiet.bronze, "--reset-dagruns", "-y")
    expected = quiet.deliver(one, RECIPE)
    eventually(lambda: states(api, quiet.bronze, one) == ["success"], 300, "it went on")
    assert answers.bronze_count(quiet, one[0]) == expected.bronze[one[0]]


def test_a_broken_day_makes_it_exit_non_zero_and_is_named(running, quiet, contracts, api):
    good, bad = days(2, first=FIRST + timedelta(30))
    change(contracts, quiet.bronze, gate_against(bad))
    expected = quiet.deliver([good, bad], RECIPE)
    code, told = ended(started(running, *airflow_backfill(quiet.bronze, [good, bad])))
    assert code not in (0, None)
    assert f"1 of 2 days did not succeed: {bad}" in told
    assert states(api, quiet.bronze, [good, bad]) == ["success", "failed"]
    assert [answers.bronze_count(quiet, day) for day in (good, bad)] == [expected.bronze[good], 0]
    assert leases.holder(quiet.bronze) is None

    take_back(contracts, quiet.bronze, gate_against(bad))
    code, told = ended(started(running, *airflow_backfill(quiet.bronze, [good, bad], "--rerun-failed-tasks")))
    assert code == 0, told
    assert answers.bronze_count(quiet, bad) == expected.bronze[bad]


def backfill(shop: Shop, of: Sequence[date], *options: str) -> tuple[str, ...]:
    return "backfill", shop.bronze, *window(of), "--downstream", *options


def tries(api: Backfills, shop: Shop) -> dict[tuple[str, date], int]:
    """How often each run of each dataset was taken to its end: the tries of its last task."""
    runs = [(name, run) for name in shop.datasets for run in api.runs(dag_id(name), FIRST, FIRST + timedelta(60))]
    return {
        (name, run.day): next(task.try_number for task in api.tasks(run) if task.task_id == "release")
        for name, run in runs
    }


def published(shop: Shop, of: Sequence[date]) -> dict[tuple[str, date], list[tuple[str, datetime | None]]]:
    return {
        (dataset, day): [(one.batch_id, one.published_at) for one in batches.published_in(dataset, interval(day))]
        for dataset in shop.datasets
        for day in of
    }


def covered(dataset: str, of: Sequence[date]) -> list[date]:
    held = coverage(table(dataset))
    return [day for day in of if interval(day) in held]


@pytest.mark.full
@pytest.mark.parametrize(("count", "losing"), [(2, 1), (4, 3)])
def test_what_was_rolled_back_in_bronze_is_built_again_with_what_depends_on_it_and_nothing_else(
    count, losing, running, contracts, api
):
    every = days(count)
    lost = sorted(random.Random(2).sample(every, losing))
    kept = [day for day in every if day not in lost]
    # The first of them alone, so that the backfill can be interrupted between it and the others.
    assert lost[0] + timedelta(1) not in lost
    shop = opened(contracts, api, every[0], every[-1])
    files = [(day, key, data) for day in every for key, data in shop.files(day, RECIPE)]
    unpause(shop, api)

    # These come last, whatever their dates: going back to before them undoes just them.
    shop.put((key, data) for day, key, data in files if day in kept)
    eventually(lambda: covered(shop.bronze, every) == kept, 300, "bronze holds the other days")
    before = head(shop.bronze)
    shop.put((key, data) for day, key, data in files if day in lost)
    eventually(lambda: all_succeeded(api, shop, every), 900, "every interval of every layer has run")
    assert equal_to(shop, oracle(files))
    tried, untouched = tries(api, shop), published(shop, kept)

    running.lakehouse("rollback", shop.bronze, "--to", str(before), "--yes", "--why", "they were wrong")
    assert covered(shop.bronze, every) == kept
    assert covered(shop.gold, every) == every
    # One of them comes with another file than before, and has no run any more.
    late = next(data for _, data in shop.files(lost[0], Recipe.of(0.05, 11, None)))
    files.append((lost[0], shop.key(f"orders/{lost[0]}/late.jsonl"), late))
    shop.put([files[-1][1:]])
    gone = api.runs_by_start(dag_id(shop.bronze), interval(lost[0]).start, interval(lost[0]).start)
    (run,) = gone.values()
    assert api._ask("DELETE", f"/api/v2/dags/{run.dag}/dagRuns/{run.run_id}").status_code == 204

    state = shop.state()
    shown = running.lakehouse(*backfill(shop, every, "--only-missing", "--dry-run")).stdout
    wanted = f"\t{losing}\t{listed(shop.contract(shop.bronze), map(interval, lost))}\t"
    assert [line.split("\t")[0] for line in shown.splitlines() if wanted in line] == list(shop.datasets)
    assert "unknown" not in shown
    assert shop.state() == state

    going = started(running, *backfill(shop, every, "--only-missing", "-y"))
    eventually(lambda: lost[0] in covered(shop.bronze, every), 300, "the first of them is there again")
    os.killpg(going.pid, signal.SIGINT)
    code, told = ended(going)
    assert code == 130, told
    assert "the same command does what is left" in told
    assert covered(shop.bronze, every) == sorted([*kept, lost[0]])

    code, told = ended(started(running, *backfill(shop, every, "--only-missing", "-y")))
    assert code == 0, told
    assert covered(shop.bronze, every) == every
    again = {(dataset, day): 1 for dataset in shop.datasets for day in lost} | {(shop.bronze, lost[0]): 0}
    assert tries(api, shop) == {run: count + again.get(run, 0) for run, count in tried.items()}
    assert published(shop, kept) == untouched
    assert [len(batches.published_in(dataset, interval(lost[0]))) for dataset in shop.datasets] == [1, 2, 2]
    assert equal_to(shop, oracle(files))

    state = shop.state()
    code, told = ended(started(running, *backfill(shop, every, "-y")))
    assert code == 0, told
    assert "nothing to do" in told
    assert shop.state() == state
    shop.close()


@pytest.mark.full
def test_an_interval_that_fails_is_named_and_what_depends_on_it_is_not_started(running, contracts, api):
    every = days(2)
    shop = opened(contracts, api, every[0], every[-1])
    change(contracts, shop.bronze, gate_against(every[1]))
    expected = shop.deliver(every, RECIPE)
    code, told = ended(started(running, *backfill(shop, every, "-y")))
    assert code == 1, told
    assert f"airflow dags unpause {dag_id(shop.bronze)}" in told
    unpause(shop, api)
    eventually(lambda: states(api, shop.bronze, every) == ["success", "failed"], 300, "the second day failed")
    eventually(lambda: covered(shop.gold, every) == every[:1], 300, "the first day is in gold")

    code, told = ended(started(running, *backfill(shop, every, "-y")))
    assert code == 1, told
    last = told.splitlines()[-1]
    assert f"{shop.bronze} {every[1]}: audit failed: " in last
    assert f"{shop.silver} {every[1]}: not started, for {shop.bronze} was not built" in last
    assert f"{shop.gold} {every[1]}: not started, for {shop.silver} was not built" in last
    assert covered(shop.bronze, every) == every[:1]

    take_back(contracts, shop.bronze, gate_against(every[1]))
    code, told = ended(started(running, *backfill(shop, every, "-y")))
    assert code == 0, told
    assert "failed" in told  # as the reason
    assert equal_to(shop, expected)
    shop.close()
