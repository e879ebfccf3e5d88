"""Alerts: what on-call is told, and the channels that carry it.

An alert goes through the ledger's outbox, so that it is told at least once, in order, and retried until it was.
"""

from lakehouse.alerts.channels import channels
from lakehouse.alerts.delivery import deliver, drop, messages, problems
from lakehouse.alerts.made import Story, closing, opening, trial
from lakehouse.alerts.model import Alert

__all__ = [
    "Alert",
    "Story",
    "channels",
    "closing",
    "deliver",
    "drop",
    "messages",
    "opening",
    "problems",
    "trial",
]
