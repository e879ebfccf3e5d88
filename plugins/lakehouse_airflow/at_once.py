"""Starting maintenance of one dataset from within the run that made it necessary."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lakehouse.naming import maintenance_dag_id

if TYPE_CHECKING:
    from lakehouse.contracts import AnyContract

log = logging.getLogger(__name__)
DATASET = "dataset"  # in the conf of a run of maintenance: only this one


def maintain_at_once(contract: AnyContract, run_id: str) -> None:
    """Ask Airflow for a run of the tier's DAG for this dataset alone; there is one of each id, whoever asks.

    What was published is published: when Airflow says no, that is told in the log, and the next turn comes anyway.
    """
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    dag = maintenance_dag_id(contract.maintenance.tier)
    asked = TriggerDagRun(dag_id=dag, run_id=run_id, conf={DATASET: contract.dataset})
    try:
        answer = SUPERVISOR_COMMS.send(asked)
    except Exception as error:  # noqa: BLE001  # whatever it is, the run has done its own work
        log.warning("%s was not started for %s: %s", dag, contract.dataset, error)
        return
    if isinstance(answer, ErrorResponse):
        log.info("%s has been asked for %s already: %s", dag, contract.dataset, run_id)
    else:
        log.info("%s has many more files than when it was last looked at; started %s", contract.dataset, run_id)
