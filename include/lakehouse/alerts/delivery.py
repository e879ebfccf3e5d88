"""Into the outbox, and out of it: at least once, in order, until every channel has been told."""

from __future__ import annotations

from datetime import datetime

from lakehouse.alerts.channels import channels
from lakehouse.alerts.model import Alert
from lakehouse.alerts.routes import LOG, routes
from lakehouse.errors import LakehouseError
from lakehouse.ledger import outbox
from lakehouse.ledger.outbox import Backlog, Message


def messages(alert: Alert) -> list[Message]:
    """One message for each channel that the alert is for. Who heard of its opening hears of its end, and nobody else.

    The setting may have changed in between: a route that it no longer has keeps what it was promised until it is back,
    or dropped.
    """
    heard = outbox.channels_of(alert.alert_id) if alert.event == "closed" else []
    names = heard or [LOG, *(route.name for route in routes().found if route.takes(alert))]
    payload = alert.model_dump(mode="json")
    return [Message(alert.alert_id, alert.event, name, payload) for name in names]


def deliver(now: datetime) -> list[Backlog]:
    """Send all that waits and may be tried, the log first; what still waits is returned, with why."""
    senders = channels()
    for waiting in sorted(outbox.backlog(), key=lambda one: one.channel != LOG):
        if waiting.channel in senders:
            while outbox.send_next(waiting.channel, senders[waiting.channel], now):
                pass
    return outbox.backlog()


def problems() -> tuple[str, ...]:
    """What is wrong with the settings of routes, a sentence each."""
    return routes().problems


def drop(channel: str, now: datetime) -> int:
    """Give up what waits for a route that the settings no longer have; how many messages that were."""
    if channel in channels():
        raise LakehouseError(f"{channel} is in use; take it out of LAKEHOUSE_ALERT_ROUTES first")
    return outbox.drop(channel, now)
