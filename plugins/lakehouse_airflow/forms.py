"""The DAGs that people trigger with a form, and their operators."""

from __future__ import annotations

from abc import abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param

from lakehouse.contracts import contracts
from lakehouse.naming import REPLAY_DAG, ROLLBACK_DAG, SPARK_POOL
from lakehouse_airflow.factory import DEFAULTS
from lakehouse_airflow.operators import Step, attempt_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse.plan import Attempt


def build_replay() -> DAG | None:
    """The form by which rejected records are replayed or given up. No DAG where no dataset has a quarantine."""
    datasets = [contract.dataset for contract in contracts("silver")]
    if not datasets:
        return None
    with _form(
        REPLAY_DAG,
        description="Puts rejected records through the rules again, or gives them up.",
        doc_md="Trigger it with its form after a contract was mended. Records that keep the rules now land in the "
        "table once and are marked resolved, with who and why; the others stay, with the rules they break now.",
        retries=1,
        params={
            "dataset": Param(datasets[0], type="string", enum=datasets, description="Whose records."),
            "action": Param("replay", type="string", enum=["replay", "discard"], description="What to do with them."),
            "reason": Param(
                None, type=["null", "string"], description="Only records that broke this rule; empty: all."
            ),
            "interval": Param(
                None, type=["null", "string"], format="date-time", description="Only the interval that begins then."
            ),
            "why": Param("", type="string", minLength=3, description="Kept with each record."),
        },
    ) as dag:
        ResolveOperator(task_id="resolve", pool=SPARK_POOL, doc_md=ResolveOperator.__doc__)
    return dag


def build_rollback() -> DAG | None:
    """The form by which a dataset goes back, or forward, to one of its versions. No DAG without datasets."""
    datasets = [contract.dataset for contract in contracts()]
    if not datasets:
        return None
    with _form(
        ROLLBACK_DAG,
        description="Brings a dataset back, or forward, to one of its versions.",
        doc_md="Trigger it with its form. Without *apply* the task's log shows which rows would change, which batches "
        "would be undone, and what was built from them. With it, main moves in one commit under the dataset's lease, "
        "and the intervals that are undone are waited for again. `lakehouse snapshots DATASET` shows the versions.",
        retries=0,
        params={
            "dataset": Param(datasets[0], type="string", enum=datasets, description="Which dataset."),
            "to": Param("", type="string", minLength=1, description="Branch or tag, snapshot id, or ISO time."),
            "why": Param("", type="string", minLength=3, description="Kept with the rollback."),
            "apply": Param(False, type="boolean", description="Do it; else it is only shown what would change."),
        },
    ) as dag:
        RollbackOperator(task_id="rollback", doc_md=RollbackOperator.__doc__)
    return dag


def _form(name: str, retries: int, **about: Any) -> DAG:
    """A DAG that only people start; what they fill in keeps its type."""
    return DAG(
        name,
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        tags=["operations"],
        default_args={**DEFAULTS, "retries": retries},
        render_template_as_native_obj=True,
        **about,
    )


class FormOperator(Step):
    """What a form asks for, under the lease of the dataset that it names."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(dataset="", **kwargs)

    def step(self, context: Context) -> Any:
        from lakehouse.steps import LeaseHeld, leased

        form = context["params"]
        self.dataset = form["dataset"]
        who = getattr(context["dag_run"], "triggering_user_name", None) or "airflow"
        attempt = attempt_of(context)
        try:
            with leased(self.dataset, attempt):
                done = self.act(form, who, attempt)
        except LeaseHeld as held:
            self.wait_for_lease(attempt, held)
        for line in done:
            self.log.info("%s", line)

    @abstractmethod
    def act(self, form: Any, who: str, attempt: Attempt) -> list[str]:
        """Do it; the lines that tell what was done."""


class ResolveOperator(FormOperator):
    """Replay or discard rejected records, as the form says, under the dataset's lease."""

    def act(self, form: Any, who: str, attempt: Attempt) -> list[str]:
        from lakehouse.jobs import Chosen
        from lakehouse.quarantine import outcome, resolve

        chosen = Chosen(
            resolution="replayed" if form["action"] == "replay" else "discarded",
            by=who,
            why=form["why"],
            reason=form["reason"] or None,
            interval_start=form["interval"] or None,
        )
        counts = resolve(self.contract(), chosen, attempt, self.run_job)
        return [f"{self.dataset}: {outcome(chosen, counts)}"]


class RollbackOperator(FormOperator):
    """Bring a dataset to one of its versions, as the form says, under its lease; or show what that would change."""

    def act(self, form: Any, who: str, attempt: Attempt) -> list[str]:  # noqa: ARG002
        from lakehouse.rollback.told import roll_back

        return roll_back(self.contract(), form["to"], contracts(), by=who, why=form["why"], apply=form["apply"])
