"""The wait step: deferrable from the first second."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

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
        trigger = self._trigger(context)
        try:
            ready = trigger.ready()
        except ConnectionError as error:
            self.log.warning("%s; the triggerer asks again", error)
            ready = False
        if not ready:
            self.log.info("waiting for %s", trigger.awaited())
            self.defer(trigger=trigger, method_name="resume", timeout=WAIT_TIMEOUT)
        self.log.info("ready: %s", trigger.awaited())

    def resume(self, context: Context, event: Any = None) -> Any:  # noqa: ARG002
        self.log.info("ready: %s", (event or {}).get("ready"))

    def _trigger(self, context: Context) -> PollingTrigger:
        from lakehouse.contracts import Bronze, contract

        found, interval = contract(self.dataset), interval_of(context)
        if isinstance(found, Bronze):
            return LandingTrigger(found.landing_prefix(interval.start), found.source.ready.signal)
        return CoverageTrigger(list(found.inputs), str(interval))
