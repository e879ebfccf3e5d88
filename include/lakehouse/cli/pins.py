"""Commands for pins: versions that are kept by a name."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from lakehouse.cli.table import show
from lakehouse.errors import LakehouseError

Dataset = Annotated[str, typer.Argument(help="Such as gold.daily_sales.")]
Name = Annotated[str, typer.Argument(help="The pin's name, such as training-2026-01.")]


def pin(
    dataset: Dataset,
    name: Name,
    keep: Annotated[str | None, typer.Option(help="How long, such as 365d; else until it is unpinned.")] = None,
    at: Annotated[str | None, typer.Option(help="Branch or tag, snapshot id, or ISO time; else main.")] = None,
    with_inputs: Annotated[bool, typer.Option("--with-inputs", help="The versions it was made from, too.")] = False,
) -> None:
    """Keep a version under a name: maintenance never removes it. Read it with `lakehouse query --at NAME`."""
    from lakehouse.pins import pin as set_pin

    for done in set_pin(dataset, name, _duration(keep), at, with_inputs=with_inputs):
        until = f"until {done.until:%Y-%m-%d}" if done.until else "until it is unpinned"
        typer.echo(f"{done.dataset} @ {done.snapshot} is pinned as {done.name} {until}.")


def pins(dataset: Annotated[str | None, typer.Argument(help="Such as gold.daily_sales; else all.")] = None) -> None:
    """Show what is pinned, and until when."""
    from lakehouse.contracts import contracts
    from lakehouse.pins import pins as found

    asked = [dataset] if dataset else [contract.dataset for contract in contracts()]
    rows = [(one.dataset, one.name, one.snapshot, one.until) for one in found(asked)]
    show(["dataset", "pin", "snapshot", "until"], rows)


def unpin(dataset: Dataset, name: Name) -> None:
    """Take a pin away; the version goes when its retention says so."""
    from lakehouse.pins import unpin as take_away

    take_away(dataset, name)
    typer.echo(f"{dataset} is no longer pinned as {name}.")


def _duration(text: str | None) -> timedelta | None:
    from lakehouse.contracts.fields import read_duration

    if text is None:
        return None
    try:
        return read_duration(text)
    except ValueError as error:
        raise LakehouseError(f"--keep: {error}") from None
