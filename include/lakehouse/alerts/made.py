"""Alerts made from what is known: pure but for the one setting that says where runbooks are read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakehouse import advice
from lakehouse.alerts import wording
from lakehouse.alerts.model import Alert, Kind, Reason
from lakehouse.causes import Cause
from lakehouse.contracts.model import Contract
from lakehouse.contracts.sla import Severity
from lakehouse.intervals import Interval
from lakehouse.naming import dag_id


@dataclass(frozen=True)
class Story:
    """What is known of one alert. Without a dataset it is the platform's own; times are in UTC."""

    alert_id: str
    kind: Kind
    severity: Severity
    due: datetime
    opened_at: datetime
    dataset: str | None = None
    table: str | None = None  # of the dataset's, the one that is worn
    contract: Contract | None = None
    everybodys: bool = False  # what a service holds up is no single owner's matter
    interval: Interval | None = None
    cause: Cause | None = None
    detail: str | None = None
    root: str | None = None
    blocks: tuple[str, ...] = ()
    link: str | None = None

    @property
    def timezone(self) -> str:
        return self.contract.timezone if self.contract else "UTC"

    @property
    def subject(self) -> str:
        """What the sentence is about. A stale table is stale as a whole, whichever interval is its newest."""
        whole = self.kind == "fresh"
        return (self.table or self.dataset or "") + ("" if whole else wording.of_interval(self.interval, self.timezone))


def opening(story: Story) -> Alert:
    """The alert that something is late, with what to try."""
    summary = wording.opened(story.kind, story.subject, story.due, story.opened_at)
    why = f": {story.detail}" if story.kind == "health" and story.detail else ""  # what was measured says it all
    summary += why or wording.because(story.cause, story.dataset, story.root)
    summary += wording.behind(story.blocks)
    facts = _facts(story, story.opened_at) | {
        "command": advice.command(story.cause, story.table or story.dataset, story.interval, story.timezone),
        "runbook": advice.runbook(story.cause),
    }
    return Alert(event="opened", summary=summary, **facts)


def closing(story: Story, reason: Reason, now: datetime) -> Alert:
    """The recovery that closes it."""
    summary = wording.closed(story.kind, story.subject, reason, story.due, now)
    return Alert(event="closed", summary=summary, reason=reason, closed_at=now, **_facts(story, now))


def trial(now: datetime) -> Alert:
    """One that tries the channels: nothing is wrong."""
    return Alert(
        alert_id=f"test-{now.astimezone(UTC):%Y%m%dT%H%M%S}",
        event="opened",
        kind="test",
        severity="info",
        summary="this is a test of the alert channels; nothing is wrong",
        opened_at=now,
        command="lakehouse sla",
    )


def _facts(story: Story, now: datetime) -> dict[str, Any]:
    """The fields that both events have."""
    return {
        "alert_id": story.alert_id,
        "kind": story.kind,
        "severity": story.severity,
        "cause": story.cause,
        "detail": story.detail,
        "root": story.root,
        "blocks": story.blocks,
        "dataset": story.dataset,
        "dag_id": dag_id(story.dataset) if story.dataset else None,
        "owner": story.contract.owner if story.contract and not story.everybodys else None,
        "interval_start": story.interval.start if story.interval else None,
        "interval_end": story.interval.end if story.interval else None,
        "due_at": story.due,
        "opened_at": story.opened_at,
        "late_seconds": int((now - story.due).total_seconds()),
        "link": story.link,
    }
