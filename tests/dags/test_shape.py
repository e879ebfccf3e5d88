"""Every contract has its DAG, and every DAG has what an operator expects of it."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.contracts import AnyContract, load
from lakehouse.naming import LAYERS, MAINTENANCE_POOL, SPARK_POOL, dag_id
from lakehouse.settings import ROOT

CONTRACTS = list(load(ROOT / "include/contracts").contracts.values())
STEPS = ["wait", "write", "audit", "publish"]
each_contract = pytest.mark.parametrize("contract", CONTRACTS, ids=[c.dataset for c in CONTRACTS])


def dag(parsed, contract: AnyContract) -> dict[str, Any]:
    return parsed["dags"][dag_id(contract.dataset)]


def tasks(parsed, name: str) -> dict[str, dict[str, Any]]:
    return {task["__var"]["task_id"]: task["__var"] for task in parsed["dags"][name]["tasks"]}


def test_nothing_is_wrong_with_the_project_itself(parsed):
    assert parsed["errors"] == {}


def test_each_layer_has_one_file_and_each_contract_one_dag(parsed):
    layers = {f"{layer}.py": sum(contract.layer == layer for contract in CONTRACTS) for layer in LAYERS}
    own = {"maintenance.py": 1, "operations.py": 2, "watch.py": 1, "contract_problems.py": 0}
    assert parsed["files"] == {**layers, **own}
    others = {"maintenance_daily", "replay_quarantine", "rollback", "watch_freshness"}
    assert set(parsed["dags"]) == {*(dag_id(contract.dataset) for contract in CONTRACTS), *others}


@each_contract
def test_a_run_takes_the_four_visible_steps_one_after_the_other(parsed, contract):
    found = tasks(parsed, dag_id(contract.dataset))
    assert [found[step]["downstream_task_ids"] for step in STEPS] == [["write"], ["audit"], ["publish"], ["release"]]
    assert set(found) == {*STEPS, "release"}


@each_contract
def test_the_lease_is_given_back_by_a_teardown_which_does_not_decide_the_outcome(parsed, contract):
    release = tasks(parsed, dag_id(contract.dataset))["release"]
    assert release["is_teardown"]
    assert not release.get("on_failure_fail_dagrun", False)
    assert release["trigger_rule"] == "all_done_setup_success"


@each_contract
def test_each_run_owns_a_real_interval_and_none_is_left_out(parsed, contract):
    found = dag(parsed, contract)
    assert found["timetable"]["__type"].endswith(".CronDataIntervalTimetable")
    assert found["catchup"] is True
    runs = parsed["intervals"][dag_id(contract.dataset)]
    assert runs[0][0].startswith(contract.start.isoformat())
    assert all(start < end for start, end in runs)
    assert [end for _, end in runs[:-1]] == [start for start, _ in runs[1:]]


@each_contract
def test_every_task_is_retried_with_growing_pauses(parsed, contract):
    for task in tasks(parsed, dag_id(contract.dataset)).values():
        assert task["retries"] >= 2
        assert task["retry_exponential_backoff"]
        assert 0 < task["retry_delay"] < task["max_retry_delay"]


@each_contract
def test_a_dag_is_found_by_layer_by_owner_and_by_tier(parsed, contract):
    tier = f"tier:{contract.maintenance.tier}"
    assert set(dag(parsed, contract)["tags"]) == {contract.layer, contract.owner, tier}
    assert {task["owner"] for task in tasks(parsed, dag_id(contract.dataset)).values()} == {contract.owner}


@each_contract
def test_a_dags_page_says_what_it_is_whose_it_is_and_when_it_is_due(parsed, contract):
    found = dag(parsed, contract)
    assert found["description"] == contract.description
    for told in (contract.description, contract.owner, contract.sla.as_text(contract.timezone)):
        assert told in found["doc_md"]
    for told in (*contract.inputs, f"{contract.dataset.replace('.', '/')}.yaml"):
        assert told in found["doc_md"]
    for gate in contract.gates:
        assert f"`{gate.title}`" in found["doc_md"]
    assert "include/docs/runbooks/README.md" in found["doc_md"]


@each_contract
def test_every_task_says_what_it_does_whose_it_is_and_where_to_look(parsed, contract):
    found = tasks(parsed, dag_id(contract.dataset))
    first_lines = [task["doc_md"].splitlines()[0] for task in found.values()]
    assert all(first_lines)
    assert len(set(first_lines)) == len(found)
    for told in (contract.owner, contract.sla.as_text(contract.timezone), "runbooks/README.md"):
        assert all(told in task["doc_md"] for task in found.values())


@each_contract
def test_steps_lead_to_their_spark_session_and_to_the_version_they_wrote(parsed, contract):
    found = tasks(parsed, dag_id(contract.dataset))
    links = {name: task["_operator_extra_links"] for name, task in found.items() if "_operator_extra_links" in task}
    both = {"Spark session": "spark_link", "Snapshot": "snapshot_link"}
    assert links == {"write": both, "audit": both, "publish": both}


@each_contract
def test_only_tasks_that_use_spark_take_one_of_its_slots(parsed, contract):
    found = tasks(parsed, dag_id(contract.dataset))
    assert {name for name, task in found.items() if task.get("pool") == SPARK_POOL} == {"write", "audit"}


@each_contract
def test_publishing_updates_the_datasets_asset_and_nothing_else_does(parsed, contract):
    found = tasks(parsed, dag_id(contract.dataset))
    outlets = {name: [o["__var"]["name"] for o in task["outlets"]] for name, task in found.items() if "outlets" in task}
    assert outlets == {"publish": [contract.dataset]}


def test_maintenance_plans_then_maps_one_task_to_each_dataset_and_catches_up_on_nothing(parsed):
    found = tasks(parsed, "maintenance_daily")
    assert found["plan"]["downstream_task_ids"] == ["maintain"]
    assert found["maintain"]["_is_mapped"]
    assert found["maintain"]["partial_kwargs"]["pool"] == MAINTENANCE_POOL, "no pipeline waits for maintenance"
    assert parsed["dags"]["maintenance_daily"]["catchup"] is False
    assert parsed["dags"]["maintenance_daily"]["max_active_runs"] == 4


def test_the_watch_looks_every_five_minutes_catches_up_on_nothing_and_is_not_retried(parsed):
    found = parsed["dags"]["watch_freshness"]
    assert found["timetable"]["__var"]["expression"] == "*/5 * * * *"
    assert found["catchup"] is False
    assert found["max_active_runs"] == 1
    (look,) = tasks(parsed, "watch_freshness").values()
    assert look.get("retries", 0) == 0
    assert look["execution_timeout"] < 5 * 60


def test_parsing_asks_no_service_anything(parsed):
    assert parsed["connects"] == []


@pytest.mark.parametrize(
    "heavy",
    [
        *("pyspark", "pyiceberg", "pandas", "pyarrow", "numpy", "duckdb", "boto3", "botocore", "psycopg2", "grpc"),
        *(
            "lakehouse.ledger",
            "lakehouse.catalog",
            "lakehouse.store",
            "lakehouse.landing",
            "lakehouse.landing_bucket",
            "lakehouse.steps",
            "spark_jobs",
        ),
        "airflow.providers.apache.spark",
    ],
)
def test_parsing_imports_nothing_heavy_beyond_what_airflow_brings(parsed, heavy):
    assert [name for name in parsed["imported"] if name == heavy or name.startswith(f"{heavy}.")] == []


def test_what_parsing_imports_is_seen(parsed):
    assert "lakehouse_airflow.factory" in parsed["imported"]
