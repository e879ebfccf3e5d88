"""The maintenance DAGs: one a tier, in which every dataset is looked at, planned for and kept healthy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import DAG, BaseOperator, CronTriggerTimetable
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from lakehouse.contracts import contracts
from lakehouse.errors import Failures, LakehouseError
from lakehouse.identities import acting_as
from lakehouse.maintenance.window import begins, is_open
from lakehouse.naming import MAINTENANCE_POOL, maintenance_dag_id
from lakehouse.roles import Role
from lakehouse.settings import settings
from lakehouse_airflow.at_once import DATASET
from lakehouse_airflow.factory import DEFAULTS
from lakehouse_airflow.operators import Step, attempt_of, one_sentence
from lakehouse_airflow.runner import ConnectRunner, Runner, runner
from lakehouse_airflow.triggers import LEASE_TIMEOUT, LeaseTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse.contracts import AnyContract
    from lakehouse.maintenance.turn import Busy

# A hot table's next turn comes in an hour.
PATIENCE = timedelta(minutes=50)


def build_maintenance(tier: str, schedule: str) -> DAG | None:
    """plan → maintain, once for each dataset of a tier. No DAG for an empty tier."""
    datasets = [contract.dataset for contract in contracts() if contract.maintenance.tier == tier]
    if not datasets:
        return None
    with DAG(
        maintenance_dag_id(tier),
        description=f"Keeps the tables of tier {tier} healthy.",
        doc_md="*plan* looks at each table's metadata and decides what it needs; *maintain* does it, one mapped task "
        "for each dataset, a slice at a time under the dataset's lease. What was done and why is in each task's log, "
        "and in `lakehouse maintenance log`; what would be done, in `lakehouse maintain --dry-run`. Trigger it with "
        'the conf `{"dataset": "silver.orders"}` for one dataset alone.',
        schedule=CronTriggerTimetable(begins(settings().maintenance_window, schedule), timezone="UTC"),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=4,  # a run for one dataset alone waits for no other; the leases let one write at a time
        tags=["maintenance"],
        default_args={**DEFAULTS, "retries": 1},
    ) as dag:
        plan = PlanOperator(task_id="plan", tier=tier, doc_md=PlanOperator.__doc__)
        MaintainOperator.partial(
            task_id="maintain",
            pool=MAINTENANCE_POOL,
            doc_md=MaintainOperator.__doc__,
            map_index_template="{{ task.dataset }}",
        ).expand_kwargs(plan.output)
    return dag


def only_for(context: Context) -> str | None:
    """The dataset that a run was started for alone, by hand or as it should not wait; its conf says so."""
    return (context["dag_run"].conf or {}).get(DATASET)


def window_of(context: Context) -> str:
    """The hours to which this run has to keep; those that were started by hand, or as a table cannot wait, run now."""
    by_hand = only_for(context) or context["dag_run"].run_type == "manual"
    return "" if by_hand else settings().maintenance_window


class PlanOperator(BaseOperator):
    """Look at the metadata of each table of the tier, and hand on what each dataset needs. No Spark."""

    def __init__(self, *, tier: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tier = tier

    def execute(self, context: Context) -> list[dict[str, Any]]:
        only, window = only_for(context), window_of(context)
        if not is_open(window, datetime.now(UTC)):
            raise AirflowSkipException(f"put off: it is not {window} UTC")
        asked = [one for one in contracts() if one.maintenance.tier == self.tier and only in (None, one.dataset)]
        with one_sentence(), acting_as(Role.MAINTENANCE):
            if only and not asked:
                raise LakehouseError(f"no dataset {only} is of tier {self.tier}; mend the run's conf")
            if not only:
                self._prune()
            return self._plans(asked)

    def _prune(self) -> None:
        """The ledger is kept, too."""
        from lakehouse.ledger.database import now
        from lakehouse.ledger.pruning import prune

        gone = prune(now() - timedelta(days=settings().ledger_days))
        self.log.info("the ledger forgot %s", ", ".join(f"{rows} rows of {name}" for name, rows in gone.items()))

    def _plans(self, asked: list[AnyContract]) -> list[dict[str, Any]]:
        """A dataset that cannot be planned for fails in its own mapped task, and keeps no other from its turn."""
        failures, made = Failures(), []
        for one in asked:
            with failures.of(one.dataset):
                made.append(self._plan(one))
        if not made:  # most likely a service is down, and a retry helps
            failures.check()
        for dataset, text in failures.told.items():
            self.log.error("%s failed: %s", dataset, text)
            made.append({"dataset": dataset, "steps": [], "failed": text})
        return made

    def _plan(self, contract: AnyContract) -> dict[str, Any]:
        from lakehouse.ledger import maintenance_turns
        from lakehouse.ledger.database import now
        from lakehouse.maintenance.seen import plans
        from lakehouse.maintenance.told import lines

        maintenance_turns.begin(contract.dataset)  # on-call is not told of what is about to be mended
        found = list(plans(contract, now()))
        for inspected, plan in found:
            for line in lines(inspected, plan):
                self.log.info("%s", line)
        steps = [step.model_dump(mode="json") for _, plan in found for step in plan.steps]
        return {"dataset": contract.dataset, "steps": steps, "failed": ""}


@dataclass(frozen=True)
class Waited:
    """What a task has to know that goes on where it was put off."""

    taken: int = 0  # steps
    until: str = ""
    waits: int = 0
    unwritten: int = 0  # files, in the steps that were taken


class MaintainOperator(Step):
    """Do what the plan says of one dataset, a slice at a time under its lease; it waits for that without a worker slot.

    One that is still being written after most of an hour, or once the window is over, is put off. A run for this
    dataset alone waits for hours.
    """

    def __init__(self, *, steps: list[dict[str, Any]], failed: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.steps = steps
        self.failed = failed
        self._waited = Waited()

    def step(self, context: Context) -> Any:
        from lakehouse.maintenance.carried_out import Busy, PutOff, carry_out
        from lakehouse.maintenance.step import Step as Planned
        from lakehouse.maintenance.turn import turn

        planned = [Planned.model_validate(one) for one in self.steps]
        pause, window, before = settings().maintenance_pause_seconds, window_of(context), self._waited
        # Who waits leaves its Spark sessions, and the server opens none a second time.
        attempt = replace(attempt_of(context), redone=before.waits)
        try:
            with turn(self.dataset), acting_as(Role.MAINTENANCE):
                if self.failed:
                    raise AirflowFailException(f"{self.dataset} could not be planned for: {self.failed}")
                given = (self.contract(), planned, attempt, self.run_job, pause)
                for line in carry_out(*given, window=window, start=before.taken, unwritten=before.unwritten):
                    self.log.info("%s", line)
        except Busy as busy:
            self._wait(context, busy)
        except PutOff as put_off:
            raise AirflowSkipException(f"put off: {put_off}") from None
        if not planned:
            self.log.info("%s: nothing to do", self.dataset)

    def _wait(self, context: Context, busy: Busy) -> NoReturn:
        """Leave the worker until the lease is free, and go on with the step that was next; but not for ever."""
        alone, run = only_for(context), attempt_of(context).run
        until = "" if alone else self._waited.until or (datetime.now(UTC) + PATIENCE).isoformat()
        if until and datetime.now(UTC) >= datetime.fromisoformat(until):
            raise AirflowSkipException(f"put off: {busy}") from None
        self.log.info("waiting: %s", busy)
        waited = Waited(busy.taken, until, self._waited.waits + 1, busy.unwritten)
        trigger = LeaseTrigger(self.dataset, run, until)
        self.defer(trigger=trigger, method_name="resume", kwargs=asdict(waited), timeout=LEASE_TIMEOUT)

    def resume(self, context: Context, event: Any = None, **waited: Any) -> Any:
        self._waited = Waited(**waited)
        return super().resume(context, event)

    def run_job(self, job: Any) -> None:
        """Run a job where maintenance runs: on Spark of its own, if there is one."""
        self._runner = _own_runner(self._mode)
        self._runner.run(job.key)


class MaintenanceRunner(ConnectRunner):
    """A client of the Connect server that maintenance has for itself; pipelines do not feel it there."""

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "LAKEHOUSE_SPARK_REMOTE": settings().maintenance_spark_remote}


def _own_runner(mode: str | None) -> Runner:
    found = runner(mode)
    own = isinstance(found, ConnectRunner) and settings().maintenance_spark_remote
    return MaintenanceRunner() if own else found
