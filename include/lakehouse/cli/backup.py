"""`lakehouse backup` and `lakehouse restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lakehouse.errors import LakehouseError

Folder = Annotated[
    Path, typer.Argument(help="A folder of backups, on another disk; its objects are kept once for all.")
]


def backup(
    folder: Folder,
    no_objects: Annotated[
        bool, typer.Option("--no-objects", help="Without the buckets' objects: they are replicated by the store.")
    ] = False,
) -> None:
    """Keep catalog, ledger and the objects they name in a folder, beside a running platform."""
    from lakehouse.backup.taken import take

    console = Console(stderr=True, highlight=False)
    place, made = take(folder.absolute(), objects=not no_objects, tell=console.print)
    rows = sum(one.rows for one in made.ledger.values())
    typer.echo(f"{place}: {len(made.tables)} tables, {made.files:,} files, {rows:,} rows of the ledger.")
    if no_objects:
        typer.echo(
            "It names the objects and does not hold them: without the bucket, or its replica, it restores nothing."
        )


def restore(
    folder: Folder,
    name: Annotated[str, typer.Option("--backup", help="One of the folder's backups by name; else the newest.")] = "",
) -> None:
    """Bring a backup back into an empty platform: services of group `data` up, all others down."""
    from lakehouse.backup.model import newest
    from lakehouse.backup.restored import restore as bring_back

    folder = folder.absolute()
    place, read = newest(folder, name)
    _nobody_at_work()
    console = Console(stderr=True, highlight=False)
    bring_back(folder, place, read, console.print)
    typer.echo(f"Everything is as it was at {read.at}. Go on: `lakehouse up`.")


def _nobody_at_work() -> None:
    """On the local stack this can be seen; elsewhere it is for whoever restores to see to it."""
    from lakehouse.settings import settings
    from lakehouse.stack.registry import services
    from lakehouse.stack.supervision import DOWN, Supervisor

    states = Supervisor(settings()).states()
    others = [one.name for one in services(settings()) if one.group != "data"]
    if running := [name for name in others if name in states and states[name].state not in DOWN]:
        raise LakehouseError(
            f"{', '.join(running)} would work on what is being restored: "
            "`lakehouse down`, then `lakehouse up --only data`."
        )
