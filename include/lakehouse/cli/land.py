"""`lakehouse land`: files into a dataset's landing folder."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.contracts.fields import Ready


def land(
    dataset: Annotated[str, typer.Argument(help="A bronze dataset, such as bronze.orders.")],
    start: Annotated[
        datetime, typer.Argument(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"], help="Start of the interval they belong to.")
    ],
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="The files.")],
    more: Annotated[
        bool, typer.Option("--more", help="More files will follow: do not say yet that it is complete.")
    ] = False,
) -> None:
    """Put files where a dataset's source looks for them, and say that the interval is complete."""
    from lakehouse import landing
    from lakehouse.contracts import Bronze, contract

    found = contract(dataset)
    if not isinstance(found, Bronze):
        raise LakehouseError(f"{dataset} has no landing folder; name a bronze dataset")
    names = [file.name for file in files]
    if refused := [name for name in names if landing.hidden(name)]:
        raise LakehouseError(
            f"{refused[0]} would be taken for no data; give it a name that begins with neither _ nor ."
        )
    landing.put(found, start, files)
    if not more:
        landing.mark_complete(found, start, names)
    told = "" if more else f", {_complete(found.source.ready)}"
    Console().print(f"{len(files)} file(s) in {landing.place(found.landing_prefix(start))}{told}")


def _complete(ready: Ready) -> str:
    from lakehouse.contracts.fields import write_duration

    if ready.quiet:
        return f"complete once nothing has changed for {write_duration(ready.quiet)}"
    return f"listed in {ready.manifest}" if ready.manifest else "marked complete"
