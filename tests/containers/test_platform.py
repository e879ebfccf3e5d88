"""`docker compose up` from a clone: the sample reaches gold on a real Spark cluster, which may lose a worker."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import pytest

from lakehouse.query import run_sql
from lakehouse.sample import Recipe
from lakehouse.sample.generator import folder_files
from tests.oracle import dated, oracle
from tests.stack import answers
from tests.stack.harness import eventually

SHOP: Any = SimpleNamespace(bronze="bronze.orders", silver="silver.orders", gold="gold.daily_sales")
WORKERS = 2
FACTOR = 2_000_000


@pytest.fixture(scope="session")
def days(known) -> list[date]:
    """The sample's days, as far as they have ended."""
    count = (datetime.now(UTC).date() - known.start).days
    return [known.start + timedelta(days=number) for number in range(count)]


@pytest.fixture(scope="session")
def expected(days):
    recipe = Recipe.of(1.0, 7, None)
    return oracle(dated(file for day in days for file in folder_files("orders", day, recipe)))


def master(known) -> dict[str, Any]:
    """What the Spark master says of itself."""
    found: dict[str, Any] = httpx.get(f"http://127.0.0.1:{known.spark_master_ui_port}/json/", timeout=30).json()
    return found


def busy_executors(known) -> dict[str, int]:
    """The executors of our application that have a task at hand, by address, with how many they have finished."""
    root = f"http://127.0.0.1:{known.spark_ui_port}/api/v1/applications"
    application = httpx.get(root, timeout=30).json()[0]["id"]
    found = httpx.get(f"{root}/{application}/executors", timeout=30).json()
    return {
        one["hostPort"].partition(":")[0]: one["completedTasks"]
        for one in found
        if one["id"] != "driver" and one["activeTasks"]
    }


def address(project, container: str) -> str:
    shown = project.engine.docker("inspect", container, "--format", "{{json .NetworkSettings.Networks}}").stdout
    return next(iter(json.loads(shown).values()))["IPAddress"]


def test_every_process_is_an_ordinary_user(project, in_gold):
    """PostgreSQL's own image begins as root, and changes to its user."""
    running = [one for one in project.containers() if one["State"] == "running"]
    ours = {one["Name"] for one in running if one["Service"] != "postgres"}
    assert {project.engine.docker("exec", name, "id", "-u").stdout.strip() for name in ours} == {"10001"}


def test_what_runs_is_healthy(project, in_gold):
    running = {one["Service"]: one for one in project.containers() if one["State"] == "running"}
    eventually(
        lambda: {one["Health"] for one in project.containers() if one["State"] == "running"} <= {"healthy", ""},
        120,
        f"all are healthy: {project.states()}",
    )
    assert {"airflow", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer", "watch"} <= set(running)


def test_the_sample_in_gold_equals_the_oracle(in_gold, expected):
    assert answers.silver(SHOP) == expected.silver
    assert answers.quarantine(SHOP) == sorted(expected.quarantine)
    assert answers.gold(SHOP) == sorted(expected.gold, key=repr)


def test_the_master_lists_our_application_with_the_workers_cores(in_gold):
    found = master(in_gold)
    assert [worker["state"] for worker in found["workers"]].count("ALIVE") == WORKERS
    (ours,) = found["activeapps"]
    assert (ours["name"], ours["cores"], found["coresused"]) == ("lakehouse", WORKERS, WORKERS)


def test_a_caller_without_the_secret_is_not_let_into_the_cluster(project, in_gold):
    """Neither may it register with the master, nor submit by its REST server, which is off."""
    code = (
        "from pyspark.sql import SparkSession as S;"
        "S.builder.master('spark://spark-master:7077').config('spark.ui.enabled','false').getOrCreate()"
    )
    done = project.compose("exec", "-T", "-e", "LAKEHOUSE_SPARK_TOKEN=", "watch", "python", "-c", code, check=False)
    assert done.returncode != 0
    assert len(master(in_gold)["activeapps"]) == 1


def test_airflow_is_at_hand_under_the_name_that_one_types(project, in_gold, days):
    day = str(days[0])
    asked = ["dags", "backfill", "-s", day, "-e", day, "-y", "--reset-dagruns", "gold_daily_sales"]
    done = project.compose("exec", "-T", "airflow", "airflow", *asked)
    assert "of gold_daily_sales: " in done.stdout
    assert "bronze_orders" in project.compose("exec", "-T", "airflow", "airflow", "dags", "list").stdout


def test_a_job_finishes_though_a_worker_is_killed_in_its_middle(project, in_gold):
    from spark_jobs.session import connect

    session = connect(str(uuid4()))
    asked = f"SELECT count(*) AS n, sum(quantity) AS s FROM lake.silver.orders CROSS JOIN range(0, {FACTOR}, 1, 16)"
    ((orders, quantity),) = run_sql("SELECT count(*), sum(quantity) FROM silver.orders")[1]
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(lambda: session.sql(asked).collect()[0])
        eventually(lambda: len(busy_executors(in_gold)) == WORKERS, 120, "both workers are at it")
        workers = {address(project, one["Name"]): one["Name"] for one in project.containers("spark-worker")}
        busy = busy_executors(in_gold)
        victim = next(iter(set(workers) & set(busy)))
        assert not answer.done()
        project.engine.docker("kill", workers[victim])
        found = answer.result(600)
    session.stop()
    assert (found["n"], found["s"]) == (orders * FACTOR, quantity * FACTOR)
    eventually(lambda: master(in_gold)["coresused"] == WORKERS - 1, 120, "the master counts one worker less")


def test_another_worker_takes_its_place(project, in_gold):
    project.compose("up", "--detach", "--no-build", "--no-recreate", "--scale", f"spark-worker={WORKERS}")
    eventually(lambda: master(in_gold)["coresused"] == WORKERS, 180, "our application holds the new worker's core")


def test_a_restart_keeps_everything(project, in_gold, expected):
    project.compose("down", "--timeout", "30")
    project.compose("up", "--detach", "--no-build", "--scale", f"spark-worker={WORKERS}")
    assert "gold.daily_sales" not in project.await_end("first-look", 600)
    assert answers.gold(SHOP) == sorted(expected.gold, key=repr)
