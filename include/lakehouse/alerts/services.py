"""Alerts through Apprise: Slack, Teams, PagerDuty, e-mail and a hundred more, each by its URL."""

from __future__ import annotations

import logging
import re
from typing import Any
from urllib.parse import parse_qs, quote

from apprise import Apprise, AppriseAsset, AppriseResult, NotifyBase, NotifyFormat, NotifyType
from apprise.common import OverflowMode, PersistentStoreMode

from lakehouse.alerts import wording
from lakehouse.alerts.channels import failure
from lakehouse.alerts.model import Alert
from lakehouse.alerts.routes import Route
from lakehouse.ledger.outbox import NotDelivered
from lakehouse.settings import settings

TIMEOUT_SECONDS = 30.0
_TYPES = {"critical": NotifyType.FAILURE, "warning": NotifyType.WARNING, "info": NotifyType.INFO}
# How services that keep incidents call the key by which a later message finds the earlier one's.
_INCIDENT_KEYS = ("dedup", "alias", "entity_id")
_STATUS = re.compile(r"\berror=(\d{3})\b")
# What Apprise says can hold parts of an address, and goes nowhere; its result tells what went wrong.
logging.getLogger("apprise").propagate = False
logging.getLogger("apprise").addHandler(logging.NullHandler())


def notify(route: Route, alert: Alert) -> None:
    """Send an alert; raises unless the service took it."""
    found = service(route, alert)
    if found is None:
        raise NotDelivered(f"Apprise cannot use the URL of {route.label} ({route.scheme}://…)")
    caller = Apprise(asset=found.asset)
    caller.add(found)
    kind = _TYPES[alert.severity] if alert.event == "opened" else NotifyType.SUCCESS
    result = caller.notify(
        title=wording.title(alert),
        body=wording.body(alert),
        notify_type=kind,
        body_format=NotifyFormat.MARKDOWN,
        timeout=TIMEOUT_SECONDS,
    )
    if not result:
        raise _failure(f"{route.label} ({route.scheme})", result)


def _failure(label: str, result: AppriseResult) -> NotDelivered:
    """What went wrong, of what Apprise says only what can hold no secret."""
    said = " ".join(entry.message for entry in result.logs())
    if status := _STATUS.search(said):
        return failure(f"{label} answered {status[1]}", int(status[1]))
    why = "cannot be reached" if "onnection error" in said else f"did not take it ({result.status.name.lower()})"
    return NotDelivered(f"{label} {why}")


def service(route: Route, alert: Alert) -> NotifyBase | None:
    """The service behind a URL, made ready for one alert; None where Apprise knows none."""
    asset = AppriseAsset(
        app_id="Lakehouse",
        app_desc="Lakehouse alerts",
        # Some services must be told the id that they gave an incident; whoever closes it may be another process.
        storage_path=str(settings().home / "alerts"),
        storage_mode=PersistentStoreMode.FLUSH,
    )
    url = route.url.get_secret_value()
    found = Apprise.instantiate(url, asset=asset)
    if found is None:
        return None
    found = Apprise.instantiate(_as_incident(url, found, alert.alert_id), asset=asset) or found
    if "overflow" not in _asked(url):
        # What is most important comes first; the rest of a long one is better cut than refused or sent in pieces.
        found.overflow_mode = OverflowMode.TRUNCATE
    return found


def _as_incident(url: str, found: NotifyBase, alert_id: str) -> str:
    """The URL by which opening makes an incident and closing resolves it, where the service has such."""
    known: dict[str, Any] = found.template_args
    key = next((name for name in _INCIDENT_KEYS if name in known), None)
    if key is None or "map" not in known.get("action", {}).get("values", ()):
        return url
    wanted = {"action": "map", key: quote(alert_id, safe="")}
    added = [f"{name}={value}" for name, value in wanted.items() if name not in _asked(url)]
    return url + ("&" if "?" in url else "?") + "&".join(added)


def _asked(url: str) -> set[str]:
    """The options that a URL sets itself. A # before them is no fragment to Apprise."""
    return set(parse_qs(url.partition("?")[2], keep_blank_values=True))
