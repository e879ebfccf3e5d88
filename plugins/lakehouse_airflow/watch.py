"""Airflow's turn of the SLA evaluator: the DAG that calls it, and the one place that does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, CronTriggerTimetable
from airflow.sdk.exceptions import AirflowFailException

from lakehouse.naming import WATCH_DAG
from lakehouse_airflow.docs import runbooks

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse.watch import Look

EVERY_MINUTES = 5


def look(by: str) -> Look:
    """One look of the evaluator, which decides everything; `by` says who made it look."""
    from lakehouse import watch

    return watch.look(datetime.now(UTC), by)


def summary(seen: Look) -> str:
    """What a look found, in one line."""
    return f"{seen.opened} missed, {seen.closed} arrived or withdrawn" + (
        f"; {wrong}" if (wrong := _wrong(seen)) else ""
    )


def _wrong(seen: Look) -> str:
    """One sentence of what could not be seen or told."""
    first, *more = sorted(seen.wrong) or [""]
    return first + (f"; and {len(more)} more" if more else "")


class WatchOperator(BaseOperator):
    """Look whether every dataset keeps its promise, and tell on-call; red when something cannot be seen or told."""

    def execute(self, context: Context) -> Any:  # noqa: ARG002
        seen = look("dag")
        for sentence in sorted(seen.wrong):
            self.log.warning("%s", sentence)
        self.log.info("%s", summary(seen))
        if wrong := _wrong(seen):
            raise AirflowFailException(wrong)


def build_watch() -> DAG:
    """The evaluator's turn in Airflow: it watches also where the service `watch` does not run."""
    with DAG(
        WATCH_DAG,
        description="Looks whether every dataset keeps its SLA, and tells on-call.",
        doc_md="Calls the same evaluator as the service `watch` and as deadlines do; whoever sees a miss first opens "
        "it, once. Red: something cannot be seen or told, and the log's last line says what; late data does not make "
        f"it red, `lakehouse sla` shows that. What to do: {runbooks()}.",
        schedule=CronTriggerTimetable(f"*/{EVERY_MINUTES} * * * *", timezone="UTC"),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["operations"],
        # The next look is as good as a retry; one that hangs must not be in its way.
        default_args={"retries": 0, "execution_timeout": timedelta(minutes=EVERY_MINUTES - 1)},
    ) as dag:
        WatchOperator(task_id="look", doc_md=WatchOperator.__doc__)
    return dag
