"""`lakehouse landing`: what is in an interval's landing folder, what has gone from it, and what it waits for."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.intervals import interval, with_landing
from lakehouse.cli.table import show


def landing(
    dataset: Annotated[str, typer.Argument(help="A bronze dataset, such as bronze.orders.")],
    start: Annotated[str, typer.Argument(help="Day or start of the interval, such as 2026-01-01.")],
) -> None:
    """Show what is in an interval's landing folder, what has gone from it, and what it waits for."""
    from lakehouse import landing as folders

    found = with_landing(dataset)
    asked = interval(found, start)
    awaited = folders.missing(found, asked.start, asked.end)
    rows = [(one.key, one.bytes, f"{one.changed:%Y-%m-%d %H:%M:%S}") for one in folders.objects(found, asked.start)]
    show(["file", "bytes", "changed"], rows)
    for line in folders.went(found, asked.start):
        typer.echo(line)
    typer.echo(f"waits for {awaited}" if awaited else "complete")
