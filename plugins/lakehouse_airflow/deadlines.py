"""Deadline Alerts: all that the platform has to do with them. They are experimental in Airflow 3.

A deadline decides nothing: it makes the evaluator look when an interval falls due, rather than at its next turn.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import REFERENCE_TYPE_FIELD, BaseDeadlineReference, DeadlineAlert

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from lakehouse.contracts import AnyContract

log = logging.getLogger(__name__)


@dataclass(eq=False)
class DueDeadline(BaseDeadlineReference):
    """When a run's interval must be published, by the SLA that the DAG was made with.

    It carries that SLA: whoever creates a run, be it scheduler, API or command, needs no contracts for it.
    """

    required_kwargs: ClassVar[set[str]] = {"dag_id", "run_id"}

    sla: dict[str, Any] = field(default_factory=dict)
    timezone: str = "UTC"

    def serialize_reference(self) -> dict[str, Any]:
        return {REFERENCE_TYPE_FIELD: self.reference_name, "sla": self.sla, "timezone": self.timezone}

    @classmethod
    def deserialize_reference(cls, reference_data: dict[str, Any]) -> DueDeadline:
        return cls(sla=reference_data["sla"], timezone=reference_data["timezone"])

    def __hash__(self) -> int:
        return hash((repr(self.sla), self.timezone))

    def _evaluate_with(self, *, session: Session, dag_id: str, run_id: str) -> datetime | None:
        """The due time; None where nothing is promised, or it has passed: that is no news to the evaluator."""
        try:
            end = _interval_end(session, dag_id, run_id)
            due = self.due(end) if end else None
        except Exception:  # it would keep Airflow from creating the run
            log.warning("no deadline for %s/%s", dag_id, run_id, exc_info=True)
            return None
        return due if due and due > datetime.now(UTC) else None

    def due(self, end: datetime) -> datetime | None:
        """When an interval that ends then must be published."""
        from lakehouse.contracts.sla import Sla

        return Sla.model_validate(self.sla).due(end, self.timezone)


def _interval_end(session: Session, dag_id: str, run_id: str) -> datetime | None:
    from airflow.models import DagRun
    from sqlalchemy import select

    found = select(DagRun.data_interval_end).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    return session.scalar(found)


def deadline(contract: AnyContract) -> DeadlineAlert | None:
    """The deadline of a dataset's runs; none where its contract promises nothing."""
    sla = contract.sla.model_dump(mode="json", include={"ready_within", "ready_by", "timezone"}, exclude_none=True)
    if not sla:
        return None
    return DeadlineAlert(
        name=f"{contract.dataset} is due",
        reference=DueDeadline(sla=sla, timezone=contract.timezone),
        interval=timedelta(0),
        callback=AsyncCallback(passed),
    )


async def passed() -> str:
    """What Airflow calls in the triggerer when a run is not done by its deadline: the evaluator looks."""
    return await asyncio.shield(asyncio.wrap_future(_next_look()))


# One look at a time; blocking work has no place in the triggerer's own thread.
_LOOKS = ThreadPoolExecutor(1, thread_name_prefix="looks")
_WAITING: list[Future[str]] = []


def _next_look() -> Future[str]:
    """A look that has not begun: of many deadlines at the same moment all but the first share one."""
    _WAITING[:] = [look for look in _WAITING if not (look.running() or look.done())]
    if not _WAITING:
        _WAITING.append(_LOOKS.submit(_look))
    return _WAITING[0]


def _look() -> str:
    from lakehouse_airflow.watch import look, summary

    return summary(look("deadline"))
