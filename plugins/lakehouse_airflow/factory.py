"""From contracts to DAGs. Nothing here touches a service: it runs each time Airflow parses a DAG file."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, chain

from lakehouse.contracts import AnyContract, contracts
from lakehouse.contracts.load import loaded
from lakehouse.naming import SPARK_POOL, dag_id
from lakehouse.settings import settings
from lakehouse_airflow import docs
from lakehouse_airflow.deadlines import deadline
from lakehouse_airflow.operators import (
    AuditOperator,
    PublishOperator,
    ReleaseOperator,
    WriteOperator,
)
from lakehouse_airflow.sensors import WaitOperator

DEFAULTS: dict[str, Any] = {
    "retries": settings().task_retries,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=10),
}


def build_dags(layer: str) -> list[DAG]:
    """One DAG per contract of a layer."""
    return [build_dag(contract) for contract in contracts(layer)]


def build_dag(contract: AnyContract) -> DAG:
    """wait → write → audit → publish, once per interval of the contract's schedule."""
    zone = ZoneInfo(contract.timezone)
    with DAG(
        dag_id(contract.dataset),
        description=contract.description,
        doc_md=docs.of_dag(contract),
        schedule=CronDataIntervalTimetable(contract.schedule, timezone=contract.timezone),
        start_date=datetime.combine(_first_day(contract), datetime.min.time(), zone),
        end_date=datetime.combine(contract.end, datetime.min.time(), zone) - timedelta(seconds=1)
        if contract.end
        else None,
        catchup=True,
        max_active_runs=4,
        deadline=deadline(contract),
        tags=docs.tags(contract),
        default_args={**DEFAULTS, "owner": contract.owner},
    ) as dag:
        _steps(contract)
    return dag


def _first_day(contract: AnyContract) -> Any:
    floor = settings().start
    return max(contract.start, floor) if floor else contract.start


def _steps(contract: AnyContract) -> None:
    dataset = contract.dataset

    def docs_of(step: type) -> str:
        return docs.of_task(contract, step.__doc__)

    wait = WaitOperator(task_id="wait", contract=contract, doc_md=docs_of(WaitOperator))
    write = WriteOperator(task_id="write", dataset=dataset, pool=SPARK_POOL, doc_md=docs_of(WriteOperator))
    audit = AuditOperator(task_id="audit", dataset=dataset, pool=SPARK_POOL, doc_md=docs_of(AuditOperator))
    outlet = Asset(name=dataset, uri=f"iceberg://lake/{dataset.replace('.', '/')}")
    publish = PublishOperator(task_id="publish", dataset=dataset, outlets=[outlet], doc_md=docs_of(PublishOperator))
    release = ReleaseOperator(task_id="release", dataset=dataset, doc_md=docs_of(ReleaseOperator))
    chain(wait, write, audit, publish, release.as_teardown())


def refuse_broken_contracts() -> None:
    """Fail the import of the calling DAG file with every problem, so that the UI shows them; other files still load."""
    problems = loaded().problems
    if problems:
        raise ValueError("\n".join(["broken contracts, the others run on:", *map(str, problems)]))
