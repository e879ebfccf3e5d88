"""The wait step: it begins in the triggerer, and no worker is busy with it before its input is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, TaskDeferralTimeout
from airflow.triggers.base import StartTriggerArgs

from lakehouse.contracts.fields import write_duration
from lakehouse.contracts.model import Bronze
from lakehouse_airflow.operators import interval_of
from lakehouse_airflow.polling import Hopeless
from lakehouse_airflow.triggers import WAIT_TIMEOUT, CoverageTrigger, LandingTrigger, Waiting

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse.contracts import AnyContract

# Airflow fills it in where it starts the trigger; None/None for a run that owns no interval.
OWN_INTERVAL = "{{ dag_run.data_interval_start }}/{{ dag_run.data_interval_end }}"


def waits(contract: AnyContract, interval: str) -> list[Waiting]:
    """What an interval of a dataset waits for, one after the other."""
    if isinstance(contract, Bronze):
        ready = contract.source.ready.model_dump(mode="json", exclude_none=True)
        return [LandingTrigger(contract.source.path, contract.timezone, ready, interval)]
    return [CoverageTrigger(name, interval) for name in contract.inputs]


class WaitOperator(BaseOperator):
    """Waits until the interval's input is complete: its landing folder, or each of the datasets that it reads."""

    template_fields = ("interval",)
    # The scheduler hands the task to the triggerer itself: no worker is started only to find that it must wait.
    start_from_trigger = True

    def __init__(self, *, contract: AnyContract, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.of = contract
        self.interval = OWN_INTERVAL
        trigger, given = waits(contract, OWN_INTERVAL)[0].serialize()
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=trigger, trigger_kwargs=given, next_method="resume", timeout=WAIT_TIMEOUT
        )

    def execute(self, context: Context) -> Any:
        """Wait from the first input on: where Airflow has not done it by itself."""
        self._await(context, 0)

    def resume(self, context: Context, event: Any = None, position: int = 0) -> Any:
        """One input is there: go on with the next, or be done."""
        if told := (event or {}).get("error"):
            raise AirflowFailException(told)
        self.log.info("ready: %s", (event or {}).get("ready"))
        self._await(context, position + 1)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """As Airflow has it; but one who waited in vain would wait in vain again, and is not retried."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            waited = write_duration(WAIT_TIMEOUT)
            raise AirflowFailException(f"waited {waited} in vain; once the input is there, clear this task") from None

    def _await(self, context: Context, position: int) -> None:
        """Defer until the first input from this position on that is not there."""
        for at, trigger in enumerate(waits(self.of, str(interval_of(context)))[position:], position):
            if not _there(trigger):
                self.log.info("waiting for %s", trigger.awaited())
                self.defer(trigger=trigger, method_name="resume", kwargs={"position": at}, timeout=WAIT_TIMEOUT)
            self.log.info("ready: %s", trigger.awaited())


def _there(trigger: Waiting) -> bool:
    """Whether a wait is over before it begins; one that is not answered goes on in the triggerer."""
    try:
        answer = trigger.ask()
    except OSError:
        return False
    if isinstance(answer, Hopeless):
        raise AirflowFailException(answer.why)
    return trigger.missing(answer) is None
