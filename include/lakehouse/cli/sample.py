"""`lakehouse sample`: landing files of a synthetic shop."""

from __future__ import annotations

import signal
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lakehouse.errors import LakehouseError
from lakehouse.sample import (
    DEFAULT_DIRT,
    DIRT,
    DRIFT_FROM,
    FolderStore,
    LandingStore,
    Recipe,
    Store,
    deliver_days,
    follow,
)
from lakehouse.settings import settings

DAY = ["%Y-%m-%d"]


def sample(
    first: Annotated[datetime | None, typer.Option("--from", formats=DAY, help="First day.")] = None,
    last: Annotated[datetime | None, typer.Option("--to", formats=DAY, help="Last day; else the first.")] = None,
    scale: Annotated[float, typer.Option(help="1 is some 500 orders a day.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Another seed is another shop.")] = 7,
    dirt: Annotated[str, typer.Option(help=f"all, none, or of: {', '.join(DIRT)}.")] = ",".join(DEFAULT_DIRT),
    drift_from: Annotated[
        datetime,
        typer.Option(
            formats=DAY,
            show_default=str(DRIFT_FROM),
            help="The day from which the schema differs, with the dirt drift.",
        ),
    ] = datetime(DRIFT_FROM.year, DRIFT_FROM.month, DRIFT_FROM.day),  # noqa: DTZ001  a day has no zone
    out: Annotated[Path | None, typer.Option(help="Write into this folder, not into the landing bucket.")] = None,
    follow_days: Annotated[
        bool, typer.Option("--follow", help="Stay, and deliver each day when it has ended in UTC.")
    ] = False,
) -> None:
    """Write the landing files of a synthetic shop: the same days, seed and scale give the same bytes.

    A day that was delivered is left alone.
    """
    recipe = Recipe.of(scale, seed, _dirt(dirt), drift_from.date())
    store = FolderStore(out) if out else LandingStore()
    if follow_days:
        _follow(recipe, store, first.date() if first else settings().start)
    else:
        _deliver(*_range(first, last), recipe, store)


def _dirt(text: str) -> tuple[str, ...]:
    """The kinds of dirt that an option's text asks for."""
    if text in {"all", "none"}:
        return DIRT if text == "all" else ()
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _range(first: datetime | None, last: datetime | None) -> tuple[date, date]:
    """The days asked for, both included."""
    if first is None:
        raise LakehouseError("Give the first day with --from, or --follow to deliver each day as it ends.")
    if last is not None and last < first:
        raise LakehouseError(f"--to {last:%Y-%m-%d} is before --from {first:%Y-%m-%d}.")
    return first.date(), (last or first).date()


def _deliver(first: date, last: date, recipe: Recipe, store: Store) -> None:
    """Deliver a range of days, with a bar that shows how far it is."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console, files, left_alone = Console(), 0, 0
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(f"{first}", total=(last - first).days + 1)
        for day, written in deliver_days(first, last, recipe, store):
            files, left_alone = files + written, left_alone + (not written)
            progress.update(bar, advance=1, description=f"{min(day + timedelta(days=1), last)}")
    there = f"; {left_alone} of the days were there already" if left_alone else ""
    console.print(f"Delivered {files} files for {first} to {last}{there}.", highlight=False, soft_wrap=True)


def _follow(recipe: Recipe, store: Store, start: date | None) -> None:
    """Deliver days as they end until SIGTERM or SIGINT, then leave quietly."""
    # A flag, not an event: setting an event in a handler can deadlock with the wait that it interrupts.
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: asked.append(got))
    console = Console()
    follow(
        recipe,
        store,
        start=start,
        stopping=lambda: bool(asked),
        tell=lambda text: console.print(text, highlight=False, soft_wrap=True),
    )
