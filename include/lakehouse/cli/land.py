"""`lakehouse land`: files into a dataset's landing folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from lakehouse.cli.intervals import interval, with_landing
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.contracts.fields import Ready


def land(
    dataset: Annotated[str, typer.Argument(help="A bronze dataset, such as bronze.orders.")],
    start: Annotated[str, typer.Argument(help="Day or start of the interval they belong to, such as 2026-01-01.")],
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="The files.")],
    more: Annotated[
        bool, typer.Option("--more", help="More files will follow: do not say yet that it is complete.")
    ] = False,
) -> None:
    """Put files where a dataset's source looks for them, and say that the interval is complete."""
    from lakehouse import landing

    found = with_landing(dataset)
    begin = interval(found, start).start
    names = [file.name for file in files]
    if refused := [name for name in names if landing.hidden(name)]:
        raise LakehouseError(
            f"{refused[0]} would be taken for no data; give it a name that begins with neither _ nor ."
        )
    landing.put(found, begin, files)
    if not more:
        landing.mark_complete(found, begin, names)
    state = "" if more else f", {_complete(found.source.ready)}"
    Console().print(f"{len(files)} file(s) in {landing.place(found.landing_prefix(begin))}{state}")


def _complete(ready: Ready) -> str:
    from lakehouse.contracts.fields import write_duration

    if ready.quiet:
        return f"complete once nothing has changed for {write_duration(ready.quiet)}"
    return f"listed in {ready.manifest}" if ready.manifest else "marked complete"
