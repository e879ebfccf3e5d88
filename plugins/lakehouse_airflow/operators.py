"""The operators of a dataset's DAG: one a step. What they do is in lakehouse.steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lakehouse_airflow.at_once import maintain_at_once
from lakehouse_airflow.links import SnapshotLink, SparkLink, session_url
from lakehouse_airflow.runner import ConnectRunner, Runner, runner
from lakehouse_airflow.triggers import LEASE_TIMEOUT, NO_INTERVAL, LeaseTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse.batch import TableWrite
    from lakehouse.contracts import AnyContract
    from lakehouse.intervals import Interval
    from lakehouse.plan import Attempt
    from lakehouse.steps import Handover, LeaseHeld

WRITE_TASK, AUDIT_TASK, PUBLISH_TASK = "write", "audit", "publish"
LINKS = (SparkLink(), SnapshotLink())


class Step(BaseOperator):
    """One step of one interval of one dataset."""

    def __init__(self, *, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self._mode: str | None = None
        self._runner: Runner | None = None
        self._ti: Any = None
        self.spark_link = ""
        self.wrote: TableWrite | None = None

    def execute(self, context: Context) -> Any:
        """Take the step; a run may ask for another way to Spark by its conf, {"spark_mode": "submit"}."""
        self._mode = (context["dag_run"].conf or {}).get("spark_mode")
        self._ti = context["ti"]
        with one_sentence():
            return self.step(context)

    @abstractmethod
    def step(self, context: Context) -> Any:
        """What this step does."""

    def contract(self) -> AnyContract:
        from lakehouse.contracts import contract

        return contract(self.dataset)

    def run_job(self, job: Any) -> None:
        """Run a Spark job, in a way that `on_kill` can stop and that the UI can look into meanwhile."""
        self._runner = runner(self._mode)
        self.spark_link = session_url(job.session_id) if isinstance(self._runner, ConnectRunner) else ""
        self._ti.xcom_push(SparkLink.xcom_key, self.spark_link)
        self._runner.run(job.key)

    def on_kill(self) -> None:
        if self._runner:
            self._runner.kill()

    @contextmanager
    def leased(self, attempt: Attempt) -> Iterator[None]:
        """Hold the dataset's lease, which the run's last task gives back; wait for it where another run has it."""
        from lakehouse.ledger import leases
        from lakehouse.steps import LeaseHeld, take_lease

        try:
            take_lease(self.dataset, attempt)
        except LeaseHeld as held:
            self.wait_for_lease(attempt, held)
        with leases.kept(self.dataset, attempt.run, attempt.id):
            yield

    def wait_for_lease(self, attempt: Attempt, held: LeaseHeld) -> NoReturn:
        """Leave the worker until the lease is free, and begin anew."""
        self.log.info("waiting: %s", held)
        self.defer(trigger=LeaseTrigger(self.dataset, attempt.run), method_name="resume", timeout=LEASE_TIMEOUT)

    def resume(self, context: Context, event: Any = None) -> Any:  # noqa: ARG002
        return self.execute(context)

    def handed_over(self, context: Context, by: str) -> Handover | None:
        """What an earlier step of this run handed over; nothing where there was nothing to do."""
        from lakehouse.steps import Handover

        found = context["ti"].xcom_pull(task_ids=by)
        return Handover.model_validate(found) if found else None


def interval_of(context: Context) -> Interval:
    """The interval that this run owns."""
    from lakehouse.intervals import Interval

    run = context["dag_run"]
    if run.data_interval_start is None or run.data_interval_end is None:
        raise AirflowFailException(NO_INTERVAL)
    return Interval(run.data_interval_start, run.data_interval_end)


def attempt_of(context: Context) -> Attempt:
    from lakehouse.plan import Attempt

    ti = context["ti"]
    return Attempt(run=f"{ti.dag_id}/{ti.run_id}", number=ti.try_number)


@contextmanager
def one_sentence() -> Iterator[None]:
    """What the platform knows about is told in one sentence; retrying a failed gate would not help."""
    from lakehouse.errors import LakehouseError
    from lakehouse.steps import GateFailed

    try:
        yield
    except GateFailed as error:
        raise AirflowFailException(str(error)) from None
    except LakehouseError as error:
        raise AirflowException(str(error)) from None


class WriteOperator(Step):
    """Write the interval's batch to a branch of this try's own."""

    operator_extra_links = LINKS

    def step(self, context: Context) -> Any:
        from lakehouse import steps

        attempt = attempt_of(context)
        with self.leased(attempt):
            handover = steps.write(self.contract(), interval_of(context), attempt, self.run_job)
        if handover is None:
            self.log.info("nothing to do: %s holds %s already", self.dataset, interval_of(context))
            return None
        self.wrote = handover.own
        self.log.info("written %s", handover.summary())
        return handover.model_dump(mode="json")


class AuditOperator(Step):
    """Check the written version against the contract, before anybody can read it."""

    operator_extra_links = LINKS

    def step(self, context: Context) -> Any:
        from lakehouse import steps

        handover = self.handed_over(context, WRITE_TASK)
        if handover is None:
            self.log.info("nothing to audit")
            return None
        self.wrote = handover.own
        attempt = attempt_of(context)
        with self.leased(attempt):
            audited = steps.audit(self.contract(), handover, attempt, self.run_job)
        self.log.info("audited %s", handover.summary())
        return audited.model_dump(mode="json")


class PublishOperator(Step):
    """Make the audited version main, in one commit; green if and only if the batch is published."""

    operator_extra_links = LINKS

    def step(self, context: Context) -> Any:
        from lakehouse import steps
        from lakehouse.maintenance.critical import run_at_once

        handover = self.handed_over(context, AUDIT_TASK)
        if handover is None:
            self.log.info("nothing to publish: %s holds %s already", self.dataset, interval_of(context))
            return None
        attempt = attempt_of(context)
        with self.leased(attempt):
            done = steps.make_public(self.contract(), interval_of(context), handover, attempt, self.run_job)
        self.wrote = (done or handover).own
        self.log.info("published %s", (done or handover).summary())
        return run_at_once(self.contract(), int((done or handover).batch.measures.get("table_files", 0)))


class ReleaseOperator(Step):
    """Give the lease back, whatever happened; a table that should not wait for its turn is maintained at once."""

    def step(self, context: Context) -> Any:
        from lakehouse.ledger import leases

        leases.release(self.dataset, attempt_of(context).run)
        if asked := context["ti"].xcom_pull(task_ids=PUBLISH_TASK):
            maintain_at_once(self.contract(), asked)
