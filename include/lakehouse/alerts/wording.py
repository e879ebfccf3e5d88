"""An alert in words: its one sentence, and the title and body that people read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from lakehouse.alerts.model import Alert, Kind, Reason
from lakehouse.causes import Cause
from lakehouse.intervals import Interval, shown
from lakehouse.wording import clock, length

MOST_NAMED = 3
# Why it is late, as the end of a sentence about it.
_BECAUSE = {
    Cause.SENSOR_WAITING: "it waits for its input",
    Cause.LEASE_WAITING: "another run is writing it",
    Cause.TASK_RUNNING: "its run is not through yet",
    Cause.TASK_QUEUED: "its task waits for a free slot",
    Cause.TASK_RETRYING: "a task failed and is tried again",
    Cause.TASK_FAILED: "a task failed",
    Cause.GATE_FAILED: "a gate failed",
    Cause.PUBLISHED_NOTHING: "its run is green but published nothing",
    Cause.ROLLED_BACK: "it was rolled back",
    Cause.DAG_PAUSED: "its DAG is paused",
    Cause.DAG_MISSING: "Airflow has no DAG for it",
    Cause.NO_RUN: "it has no run",
    Cause.SCHEDULER_DOWN: "Airflow's scheduler is down",
    Cause.TRIGGERER_DOWN: "Airflow's triggerer is down",
    Cause.AIRFLOW_DOWN: "Airflow does not answer",
    Cause.CATALOG_DOWN: "the catalog does not answer",
    Cause.WATCH_DOWN: "the watch is down",
    Cause.TABLE_WORN: "maintenance does not keep up with it",
    Cause.MAINTENANCE_LATE: "no turn of it has ended well since then",
}


def opened(kind: Kind, subject: str, due: datetime, now: datetime) -> str:
    """What is late, by how much, and since when."""
    late, when = length(now - due), clock(due)
    told = {
        "heartbeat": f"nobody watches the SLAs: the watch's next look was due {late} ago ({when})",
        "fresh": f"{subject} has been stale for {late} (newer data was due {when})",
        "health": f"{subject} is worn (measured {when})",
        "maintenance": f"maintenance of {subject} is {late} late (due {when})",
    }
    if kind not in told and now < due:  # its run has failed: it is told before it is late
        return f"{subject} will not arrive by itself (due {when})"
    return told.get(kind, f"{subject} is {late} late (due {when})")


def closed(kind: Kind, subject: str, reason: Reason, due: datetime, now: datetime) -> str:
    """What is over, and how late it was."""
    late, when = length(now - due), clock(due)
    told = {
        "heartbeat": f"the watch looks again, {late} late (due {when})",
        "fresh": f"{subject} is fresh again, {late} late (due {when})",
        "health": f"{subject} is healthy again, {late} after it was found worn ({when})",
        "maintenance": f"maintenance of {subject} is done again, {late} late (due {when})",
    }
    if reason == "withdrawn":
        return f"{subject} is no longer asked for by its contract (due {when})"
    if kind not in told and now < due:
        return f"{subject} has arrived in time after all (due {when})"
    return told.get(kind, f"{subject} has arrived, {late} late (due {when})")


def because(cause: Cause | None, dataset: str | None, root: str | None) -> str:
    """The cause as the end of a sentence; nothing where none is known."""
    if cause is Cause.UPSTREAM_LATE:
        if not root or root == dataset:
            return ": its input has not arrived"
        return f": {root} has not arrived" if "." in root else f": its input has not arrived, for the {root} is down"
    return f": {_BECAUSE[cause]}" if cause else ""


def behind(blocks: Sequence[str]) -> str:
    """Who waits behind it, as the end of a sentence; nothing where nobody does."""
    if not blocks:
        return ""
    more = len(blocks) - MOST_NAMED
    named = [*blocks[:MOST_NAMED], f"{more} more"] if more > 0 else list(blocks)
    told = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    return f"; {told} {'waits' if len(blocks) == 1 else 'wait'} behind it"


def of_interval(interval: Interval | None, timezone: str) -> str:
    """An interval behind a dataset's name."""
    return f" of {shown(interval, timezone)}" if interval else ""


def title(alert: Alert) -> str:
    """What a phone shows first."""
    state = alert.severity if alert.event == "opened" else "over"
    return f"[{state}] {alert.dataset or 'lakehouse'}" + (" test" if alert.kind == "test" else "")


def body(alert: Alert) -> str:
    """All that matters, the most important first: Markdown that reads well as plain text, too."""
    lines = [f"- {name}: {text}" for name, text in _fields(alert)]
    return "\n".join([alert.summary, "", *lines])


def line(alert: Alert) -> str:
    """The alert as one line of a log."""
    more = "; ".join(f"{name}: {text}" for name, text in _fields(alert) if name in {"cause", "detail", "try"})
    return f"alert {alert.alert_id} {alert.event} [{alert.severity}]: {alert.summary}" + (f" ({more})" if more else "")


def _fields(alert: Alert) -> Iterator[tuple[str, str]]:
    """What the summary does not say, by name."""
    known = {
        "cause": alert.cause,
        "detail": _code(alert.detail),
        "try": _code(alert.command),
        "run": alert.link,
        "runbook": alert.runbook,
        "begins at": alert.root if alert.root != alert.dataset else None,
        "blocks": ", ".join(alert.blocks),
        "owner": alert.owner,
        "alert": alert.alert_id,
    }
    yield from ((name, str(text)) for name, text in known.items() if text)


def _code(text: str | None) -> str:
    """Text that a chat must neither format nor break into lines."""
    return "`" + " ".join(text.replace("`", "'").split()) + "`" if text else ""
