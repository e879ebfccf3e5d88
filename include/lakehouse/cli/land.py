"""`lakehouse land`: files into a dataset's landing folder."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lakehouse.errors import LakehouseError


def land(
    dataset: Annotated[str, typer.Argument(help="A bronze dataset, such as bronze.orders.")],
    start: Annotated[
        datetime, typer.Argument(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"], help="Start of the interval they belong to.")
    ],
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="The files.")],
    more: Annotated[bool, typer.Option("--more", help="More files will follow: write no marker yet.")] = False,
) -> None:
    """Put files where a dataset's source looks for them, and say that the interval is complete."""
    from lakehouse.contracts import Bronze, contract
    from lakehouse.settings import settings
    from lakehouse.store import client

    found = contract(dataset)
    if not isinstance(found, Bronze):
        raise LakehouseError(f"{dataset} has no landing folder; name a bronze dataset")
    prefix = found.landing_prefix(start)
    for file in files:
        client().upload_file(str(file), settings().landing_bucket, prefix + file.name)
    if not more:
        client().put_object(Bucket=settings().landing_bucket, Key=prefix + found.source.ready.signal, Body=b"")
    Console().print(f"{len(files)} file(s) in landing/{prefix}" + ("" if more else ", marked complete"))
