"""Why an interval is not there: every cause, from facts written down by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from lakehouse.causes import Cause
from lakehouse.contracts.model import Bronze, Gold, Silver
from lakehouse.diagnosis import CATALOG, SCHEDULER, TRIGGERER, RunFacts, Step, World, blocked, diagnose
from lakehouse.intervals import Coverage, Interval

COMMON = {
    "description": "Of a test.",
    "owner": "commerce",
    "start": "2026-01-01",
    "sla": {"ready_within": "1h"},
    "retention": {"snapshots": "7d"},
    "maintenance": {},
}
COLUMNS = {"columns": {"id": {"type": "bigint", "required": True, "from": "id"}}}
DAY = Interval(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
HELD = Coverage.of([DAY])


def bronze(name: str, **given: object) -> Bronze:
    source = {"kind": "files", "path": "x/{interval:%Y-%m-%dT%H%M}/"}
    return Bronze.model_validate({**COMMON, "dataset": f"bronze.{name}", "source": source, **given})


def silver(name: str, reads: str) -> Silver:
    made = {"dataset": f"silver.{name}", "reads": reads, "delivers": "snapshot", "key": ["id"]}
    return Silver.model_validate({**COMMON, **COLUMNS, **made})


def gold(name: str, *reads: str) -> Gold:
    return Gold.model_validate(
        {**COMMON, **COLUMNS, "dataset": f"gold.{name}", "reads": reads, "sql": "SELECT 1 AS id"}
    )


SHOP = {c.dataset: c for c in (bronze("a"), silver("a", "bronze.a"), silver("b", "bronze.a"), gold("g", "silver.a"))}


@dataclass
class Seen:
    """What was seen of Airflow."""

    answers: bool = True
    scheduler_beats: bool = True
    triggerer_beats: bool = True
    dags: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(["bronze_a", "silver_a", "gold_g"], False))
    runs: dict[str, RunFacts] = field(default_factory=dict)

    def paused(self, dag: str) -> bool | None:
        return self.dags.get(dag)

    def run(self, dag: str, interval: Interval) -> RunFacts | None:
        return self.runs.get(dag)


def why(dataset: str = "bronze.a", held: dict[str, Coverage] | None = None, **given: object):
    world = {"contracts": SHOP, "held": held or {}, "airflow": Seen(), **given}
    return diagnose(dataset, DAY, World(**world))


def run(state: str, *steps: Step) -> Seen:
    return Seen(runs={"bronze_a": RunFacts("r1", state, steps)})


WAITS = Step("wait", "deferred", told="waiting for landing/a/_SUCCESS")
DONE = Step("wait", "success")


@pytest.mark.parametrize(
    ("seen", "cause", "told"),
    [
        (run("running", WAITS, Step("write", None)), Cause.SENSOR_WAITING, "waiting for landing/a/_SUCCESS"),
        (run("running", DONE, Step("write", "deferred")), Cause.LEASE_WAITING, "write waits"),
        (run("running", DONE, Step("write", "running", "08:00")), Cause.TASK_RUNNING, "write is running since 08:00"),
        (run("running", DONE, Step("write", "queued")), Cause.TASK_QUEUED, "write is not started"),
        (run("queued"), Cause.TASK_QUEUED, "its run is queued"),
        (run("running", DONE, Step("write", "up_for_retry", told="no Spark")), Cause.TASK_RETRYING, "write: no Spark"),
        (run("failed", DONE, Step("write", "failed", told="no Spark")), Cause.TASK_FAILED, "write: no Spark"),
        (
            run("failed", Step("audit", "failed", told="unique(id): 3 values; main is unchanged, look")),
            Cause.GATE_FAILED,
            "audit: unique(id): 3 values; main is unchanged, look",
        ),
        (run("success", DONE), Cause.PUBLISHED_NOTHING, "its run is green, and the table lacks the interval"),
        (Seen(), Cause.NO_RUN, "the scheduler has made no run"),
        (Seen(dags={"bronze_a": True}), Cause.DAG_PAUSED, "bronze_a is paused"),
        (Seen(dags={}), Cause.DAG_MISSING, "Airflow has no DAG bronze_a"),
    ],
)
def test_the_dataset_itself_is_the_root_of_what_its_own_run_lacks(seen, cause, told):
    found = why(airflow=seen)
    assert (found.cause, found.detail) == (cause, told)
    assert (found.root, found.root_interval) == ("bronze.a", str(DAY))


def test_a_paused_dag_whose_run_has_failed_is_told_as_failed():
    seen = run("failed", Step("write", "failed", told="no Spark"))
    seen.dags["bronze_a"] = True
    assert why(airflow=seen).cause is Cause.TASK_FAILED


def test_an_interval_that_was_rolled_back_is_told_as_that():
    found = why(airflow=run("success", DONE), rolled_back=lambda dataset, interval: dataset == "bronze.a")
    assert found.cause is Cause.ROLLED_BACK


@pytest.mark.parametrize(
    ("given", "cause", "root"),
    [
        ({"unseen": frozenset(SHOP)}, Cause.CATALOG_DOWN, CATALOG),
        ({"airflow": Seen(answers=False)}, Cause.AIRFLOW_DOWN, "airflow"),
        ({"airflow": Seen(scheduler_beats=False)}, Cause.SCHEDULER_DOWN, SCHEDULER),
    ],
)
def test_a_service_is_the_root_of_what_it_holds_up(given, cause, root):
    found = why(**given)
    assert (found.cause, found.root, found.root_interval) == (cause, root, "")


def test_a_silent_triggerer_is_to_blame_only_where_something_waits_in_it():
    waits, works = run("running", WAITS), run("running", DONE, Step("write", "running"))
    waits.triggerer_beats = works.triggerer_beats = False
    assert (why(airflow=waits).cause, why(airflow=waits).root) == (Cause.TRIGGERER_DOWN, TRIGGERER)
    assert why(airflow=works).cause is Cause.TASK_RUNNING


def test_a_silent_scheduler_is_not_to_blame_for_what_is_at_work():
    works = run("running", DONE, Step("write", "running"))
    works.scheduler_beats = False
    assert why(airflow=works).cause is Cause.TASK_RUNNING


def test_what_waits_for_another_dataset_names_the_root_and_what_is_wrong_there():
    found = why("gold.g", airflow=run("running", WAITS))
    assert (found.cause, found.root, found.root_interval) == (Cause.UPSTREAM_LATE, "bronze.a", str(DAY))
    assert found.detail == "bronze.a: sensor_waiting, waiting for landing/a/_SUCCESS"
    assert found.path == (("silver.a", str(DAY)), ("bronze.a", str(DAY)))


def test_the_nearest_dataset_that_lacks_only_its_own_run_is_the_root():
    found = why("gold.g", held={"bronze.a": HELD})
    assert (found.cause, found.root, found.detail) == (
        Cause.UPSTREAM_LATE,
        "silver.a",
        "silver.a: no_run, the scheduler has made no run",
    )


def test_a_day_made_of_hours_waits_for_the_first_that_is_missing():
    hourly = {**SHOP, "bronze.a": bronze("a", schedule="@hourly")}
    three = Coverage.of([Interval(DAY.start, DAY.start.replace(hour=3))])
    found = why("silver.a", held={"bronze.a": three}, contracts=hourly)
    assert found.root_interval == str(Interval(DAY.start.replace(hour=3), DAY.start.replace(hour=4)))


def test_everything_made_from_a_dataset_waits_behind_it_unless_it_holds_the_interval():
    world = World(contracts=SHOP, held={"silver.b": HELD}, airflow=Seen())
    assert blocked("bronze.a", DAY, world) == ("silver.a", "gold.g")


def test_a_table_that_the_catalog_does_not_show_is_the_catalogs_trouble_and_so_is_what_waits_for_it():
    found = why("gold.g", held={"bronze.a": HELD}, unseen=frozenset({"silver.a"}))
    assert (found.cause, found.root, found.root_interval) == (Cause.UPSTREAM_LATE, CATALOG, "")
    assert why("bronze.a", unseen=frozenset({"silver.a"})).cause is Cause.NO_RUN


def test_an_airflow_that_stops_answering_while_it_is_asked_is_down():
    class Fading(Seen):
        def paused(self, dag: str) -> bool | None:
            self.answers = False
            return None

    assert why(airflow=Fading()).cause is Cause.AIRFLOW_DOWN
