"""Alerts: what on-call is told, and the channels that carry it.

An alert goes through the ledger's outbox, so that it is told at least once, in order, and retried until it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import httpx
from pydantic import BaseModel, ConfigDict

from lakehouse.contracts.fields import write_duration
from lakehouse.contracts.model import Contract
from lakehouse.ledger import outbox
from lakehouse.ledger.outbox import Backlog, Message, NotDelivered
from lakehouse.naming import dag_id
from lakehouse.settings import settings
from lakehouse.sla import Miss

log = logging.getLogger(__name__)
TIMEOUT_SECONDS = 10.0
LOG, WEBHOOK = "log", "webhook"


class Alert(BaseModel):
    """One event of one alert, as a webhook receives it. The opening and the closing event share the id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    alert_id: str
    event: Literal["opened", "closed"]
    kind: str
    summary: str
    reason: str | None = None
    dataset: str
    dag_id: str
    owner: str | None
    interval_start: datetime
    interval_end: datetime
    due_at: datetime
    opened_at: datetime
    closed_at: datetime | None = None
    late_seconds: int

    def messages(self) -> list[Message]:
        """One message for each channel that is in use."""
        payload = self.model_dump(mode="json")
        return [Message(self.alert_id, self.event, channel, payload) for channel in channels()]


def opened(miss: Miss, contract: Contract) -> Alert:
    """The alert that an interval is late."""
    promise = write_duration(contract.sla.ready_within)
    summary = f"{miss.dataset} is late: {miss.interval} was due {promise} after its end, at {_clock(miss.due)}"
    return _alert(miss, contract, summary, miss.opened_at)


def closed(miss: Miss, contract: Contract | None, reason: str, now: datetime) -> Alert:
    """The recovery that closes an alert."""
    told = "has arrived" if reason == "arrived" else "is no longer asked for by its contract"
    summary = f"{miss.dataset} {told}: {miss.interval}, due at {_clock(miss.due)}"
    update = {"event": "closed", "reason": reason, "closed_at": now}
    return _alert(miss, contract, summary, now).model_copy(update=update)


def channels() -> dict[str, Callable[[dict[str, Any]], None]]:
    """The channels in use, each with what sends a payload through it."""
    webhook = {WEBHOOK: _post} if settings().alert_webhook.get_secret_value() else {}
    return {LOG: _write, **webhook}


def deliver(now: datetime) -> list[Backlog]:
    """Send all that waits and may be tried, each channel in order; what still waits is returned, with why."""
    senders = channels()
    for waiting in outbox.backlog():
        if waiting.channel in senders:
            while outbox.send_next(waiting.channel, senders[waiting.channel], now):
                pass
    return outbox.backlog()


def _alert(miss: Miss, contract: Contract | None, summary: str, now: datetime) -> Alert:
    return Alert(
        alert_id=miss.alert_id,
        event="opened",
        kind=miss.kind,
        summary=summary,
        dataset=miss.dataset,
        dag_id=dag_id(miss.dataset),
        owner=contract.owner if contract else None,
        interval_start=miss.interval.start,
        interval_end=miss.interval.end,
        due_at=miss.due,
        opened_at=miss.opened_at,
        late_seconds=int((now - miss.due).total_seconds()),
    )


def _clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _write(payload: dict[str, Any]) -> None:
    level = logging.ERROR if payload["event"] == "opened" else logging.INFO
    log.log(level, "alert %s %s: %s", payload["alert_id"], payload["event"], payload["summary"])


def _post(payload: dict[str, Any]) -> None:
    """Post to the webhook. Its address is a secret: no error and no log line may hold it."""
    # httpx would write the whole address into the log.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    url = settings().alert_webhook.get_secret_value()
    key = {"Idempotency-Key": f"{payload['alert_id']}/{payload['event']}"}
    try:
        answer = httpx.post(url, json=payload, headers=key, timeout=TIMEOUT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotDelivered(f"the alert webhook cannot be reached ({type(error).__name__})") from None
    if not answer.is_success:
        raise NotDelivered(f"the alert webhook answered {answer.status_code}")
