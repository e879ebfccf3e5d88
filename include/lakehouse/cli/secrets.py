"""`lakehouse secrets`: the secrets of the local stack."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

secrets = typer.Typer(no_args_is_help=True)


@secrets.callback()
def _group() -> None:
    """Without this, an app of one command would not expect its name."""


@secrets.command()
def rotate(yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Change all secrets of the local stack, and restart it with them; data stays, old secrets are refused."""
    from lakehouse.settings import env_file
    from lakehouse.stack.rotation import rotate as change

    if not yes:
        typer.confirm("Services are restarted, and running tasks are tried again. Change all secrets?", abort=True)
    with Console().status("changing secrets") as shown:
        count = change(shown.update)
    typer.echo(f"{count} secrets changed; the new ones are in {env_file()}.")
