"""`lakehouse landing`: what is in an interval's landing folder, and what it waits for."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.table import show
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.contracts import Bronze
    from lakehouse.intervals import Interval


def landing(
    dataset: Annotated[str, typer.Argument(help="A bronze dataset, such as bronze.orders.")],
    start: Annotated[str, typer.Argument(help="Day or start of the interval, such as 2026-01-01.")],
) -> None:
    """Show what is in an interval's landing folder, and what it waits for."""
    from lakehouse import landing as folders
    from lakehouse.contracts import Bronze, contract

    found = contract(dataset)
    if not isinstance(found, Bronze):
        raise LakehouseError(f"{dataset} has no landing folder; name a bronze dataset")
    interval = _interval(found, start)
    awaited = folders.missing(found, interval.start, interval.end)
    rows = [(one.key, one.bytes, f"{one.changed:%Y-%m-%d %H:%M:%S}") for one in folders.objects(found, interval.start)]
    show(["file", "bytes", "changed"], rows)
    typer.echo(f"waits for {awaited}" if awaited else "complete")


def _interval(contract: Bronze, text: str) -> Interval:
    """The interval that begins then; for a day, its first one."""
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(contract.timezone)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise LakehouseError(f"'{text}' is no time; write a day or an ISO time, such as 2026-01-01") from None
    start = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    found = contract.interval_beginning(start) or _first_of_day(contract, start, text)
    if found is None:
        raise LakehouseError(f"no interval of {contract.dataset} begins at {text}; its schedule is {contract.schedule}")
    return found


def _first_of_day(contract: Bronze, start: datetime, text: str) -> Interval | None:
    """The first interval that begins on that day, if a day was asked for and one does."""
    from zoneinfo import ZoneInfo

    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    running = contract.interval_beginning(contract.interval_ending_by(start).end)
    found = contract.interval_beginning(running.end) if running else None
    next_day = datetime.combine(day, time.max, ZoneInfo(contract.timezone))
    return found if found and found.start <= next_day else None
