"""Sizes, lengths of time and moments as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def size(count: float) -> str:
    """So many bytes, by the megabytes of contracts: 1 MB is 1024 KB, and 1 KB is 1024 bytes."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def first_sentence(error: Exception) -> str:
    """What went wrong, without what follows from it."""
    return (str(error) or type(error).__name__).partition(". ")[0].rstrip(".")


def length(time: timedelta) -> str:
    """A length of time, in two units at most."""
    minutes = int(time.total_seconds()) // 60
    if minutes < 1:
        return "less than a minute"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h" if hours % 24 else f"{hours // 24} d"


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago it was, if it ever was."""
    if moment is None:
        return "never"
    return f"{length(now - moment)} ago" if now - moment >= timedelta(minutes=1) else "just now"


def clock(moment: datetime) -> str:
    """A moment, to the minute, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
