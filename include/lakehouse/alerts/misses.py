"""Alerts of misses of `ready_within`, as the watch makes them."""

from __future__ import annotations

from datetime import datetime

from lakehouse.alerts.delivery import messages
from lakehouse.alerts.made import Story, closing, opening
from lakehouse.alerts.model import Alert
from lakehouse.contracts.model import Contract
from lakehouse.ledger.outbox import Message
from lakehouse.sla import Miss


class Told(Alert):
    """An alert that knows its messages."""

    def messages(self) -> list[Message]:
        """One message for each channel that the alert is for."""
        return messages(self)


def opened(miss: Miss, contract: Contract) -> Told:
    """The alert that an interval is late."""
    alert = opening(_story(miss, contract))
    return Told(**{**dict(alert), "summary": f"{miss.dataset} is late: {alert.summary}"})


def closed(miss: Miss, contract: Contract | None, reason: str, now: datetime) -> Told:
    """The recovery that closes an alert."""
    return Told(**dict(closing(_story(miss, contract), "arrived" if reason == "arrived" else "withdrawn", now)))


def _story(miss: Miss, contract: Contract | None) -> Story:
    return Story(
        alert_id=miss.alert_id,
        kind="ready",
        severity="critical",
        due=miss.due,
        opened_at=miss.opened_at,
        dataset=miss.dataset,
        contract=contract,
        interval=miss.interval,
    )
