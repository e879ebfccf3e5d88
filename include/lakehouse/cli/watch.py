"""`lakehouse watch` and `lakehouse sla`: who is late, and telling on-call."""

from __future__ import annotations

import json
import logging
import signal
import threading
from datetime import UTC, datetime, time, timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from lakehouse import watch as watching
from lakehouse.intervals import Interval
from lakehouse.sla import State, Verdict

STYLES = {State.MET: "green", State.WAITING: "", State.MISSED: "bold red", State.EXEMPT: "dim"}


def watch(once: Annotated[bool, typer.Option("--once", help="Look once and leave, for cron.")] = False) -> None:
    """Evaluate the SLAs, and tell on-call what is late."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    watching.watch(once, stop)


def sla(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show which intervals are there, awaited, missed."""
    rows = watching.board(datetime.now(UTC))
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in rows], indent=2))
    else:
        Console().print(_table(rows))


def _table(rows: list[Verdict]) -> Table:
    widest = max((len(row.dataset) for row in rows), default=0)
    table = Table(Column("dataset", min_width=widest), "interval (UTC)", "due (UTC)", "state", "lag")
    for row in rows:
        due = f"{row.due:%Y-%m-%d %H:%M}"
        table.add_row(row.dataset, _span(row.interval), due, str(row.state), _lag(row), style=STYLES[row.state])
    return table


def _span(interval: Interval) -> str:
    """The shortest form: a whole day by its date, a part of a day by its hours."""
    start, end = interval.start, interval.end
    if (start.time(), end - start) == (time.min, timedelta(days=1)):
        return f"{start:%Y-%m-%d}"
    return f"{start:%Y-%m-%d %H:%M} – " + (f"{end:%H:%M}" if start.date() == end.date() else f"{end:%Y-%m-%d %H:%M}")


def _lag(row: Verdict) -> str:
    if row.state is State.MET:
        return ""
    return f"due in {_short(-row.lag)}" if row.lag < timedelta(0) else _short(row.lag)


def _short(span: timedelta) -> str:
    hours, minutes = divmod(int(span.total_seconds()) // 60, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
