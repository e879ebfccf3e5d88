"""The hours in which maintenance may run by itself."""

from __future__ import annotations

from datetime import datetime, time


def is_open(window: str, now: datetime) -> bool:
    """Whether a window of UTC such as 22:00-06:00, which may reach over midnight, is open; an empty one always is."""
    if not window:
        return True
    first, last = (time.fromisoformat(end) for end in window.split("-"))
    if first < last:
        return first <= now.time() < last
    return now.time() >= first or now.time() < last
