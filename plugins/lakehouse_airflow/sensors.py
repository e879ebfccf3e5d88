"""The wait step: deferrable from the first second."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_airflow.operators import interval_of
from lakehouse_airflow.triggers import CoverageTrigger, LandingTrigger, PollingTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

WAIT_TIMEOUT = timedelta(days=3)


class WaitOperator(BaseOperator):
    """Waits until the interval's input is complete: its landing folder, or the datasets it reads."""

    def __init__(self, *, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset

    def execute(self, context: Context) -> Any:
        from lakehouse.landing import LandingError

        trigger = self._trigger(context)
        try:
            ready = trigger.ready()
        except ConnectionError as error:
            self.log.warning("%s; the triggerer asks again", error)
            ready = False
        except LandingError as error:
            raise AirflowFailException(str(error)) from None
        if not ready:
            self.log.info("waiting for %s", trigger.awaited())
            self.defer(trigger=trigger, method_name="resume", timeout=WAIT_TIMEOUT)
        self.log.info("ready: %s", trigger.awaited())

    def resume(self, context: Context, event: Any = None) -> Any:  # noqa: ARG002
        if told := (event or {}).get("error"):
            raise AirflowFailException(told)
        self.log.info("ready: %s", (event or {}).get("ready"))

    def _trigger(self, context: Context) -> PollingTrigger:
        from lakehouse.contracts import Bronze, contract

        found, interval = contract(self.dataset), interval_of(context)
        if isinstance(found, Bronze):
            way = found.source.ready.model_dump(mode="json", exclude_none=True)
            return LandingTrigger(found.landing_prefix(interval.start), way, interval.end.isoformat())
        return CoverageTrigger(list(found.inputs), str(interval))
