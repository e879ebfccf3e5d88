"""Channels: what carries an alert out. An address is a secret: no error and no log line may hold one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx

from lakehouse.alerts import wording
from lakehouse.alerts.model import Alert
from lakehouse.alerts.routes import LOG, Route, routes
from lakehouse.ledger.outbox import NotDelivered, Refused

log = logging.getLogger("lakehouse.alerts")
TIMEOUT_SECONDS = 10.0
# Answers that say no to this message, now and later; 408, 425 and 429 say: try again.
_NO = frozenset(range(400, 500)) - {408, 425, 429}
_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}
Send = Callable[[dict[str, Any]], None]


def channels() -> dict[str, Send]:
    """The channels in use, each with what sends a payload through it."""
    return {LOG: _write, **{route.name: partial(_send, route) for route in routes().found}}


def failure(told: str, status: int | None) -> NotDelivered:
    """A channel's failure by the status of its answer, if there was one."""
    return Refused(told) if status in _NO else NotDelivered(told)


def _write(payload: dict[str, Any]) -> None:
    alert = Alert.model_validate(payload)
    level = _LEVELS[alert.severity] if alert.event == "opened" else logging.INFO
    log.log(level, wording.line(alert))


def _send(route: Route, payload: dict[str, Any]) -> None:
    _hush()
    if route.scheme in ("http", "https"):
        _post(route, payload)
    else:
        # Apprise takes a while to import, and most installations never need it.
        from lakehouse.alerts.services import notify  # noqa: PLC0415

        notify(route, Alert.model_validate(payload))


def _post(route: Route, payload: dict[str, Any]) -> None:
    """Post our own JSON."""
    key = {"Idempotency-Key": f"{payload['alert_id']}/{payload['event']}"}
    try:
        answer = httpx.post(route.url.get_secret_value(), json=payload, headers=key, timeout=TIMEOUT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotDelivered(f"{route.label} cannot be reached ({type(error).__name__})") from None
    if not answer.is_success:
        raise failure(f"{route.label} answered {answer.status_code}", answer.status_code)


def _hush() -> None:
    """Libraries would write whole addresses into the log."""
    for name in ("httpx", "httpcore", "urllib3", "apprise"):
        logging.getLogger(name).setLevel(logging.WARNING)
