"""The hours in which maintenance may run by itself."""

from __future__ import annotations

from datetime import UTC, datetime, time


def is_open(window: str, now: datetime) -> bool:
    """Whether a window of UTC such as 22:00-06:00, which may reach over midnight, is open; an empty one always is."""
    if not window:
        return True
    return _holds(window, now.astimezone(UTC).time())


def begins(window: str, schedule: str) -> str:
    """The cron schedule of a DAG with a window: once a day or week when it opens, each hour within it.

    The hours of a schedule without a window may lie outside of it: its DAG would never do anything.
    """
    if not window:
        return schedule
    opens = time.fromisoformat(window.partition("-")[0])
    _, hour, *days = schedule.split()
    if hour == "*" and any(_holds(window, time(full)) for full in range(24)):
        return schedule
    return " ".join((str(opens.minute), hour if hour == "*" else str(opens.hour), *days))


def _holds(window: str, moment: time) -> bool:
    first, last = (time.fromisoformat(end) for end in window.split("-"))
    return first <= moment < last if first < last else moment >= first or moment < last
