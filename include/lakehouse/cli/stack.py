"""Commands for the local stack: run, up, down, status, doctor, logs, reset, airflow."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lakehouse.errors import LakehouseError

Only = Annotated[str, typer.Option(help="Only this group (data, airflow, watch, sample), or this service.")]


def run() -> None:
    """Start everything, bring the sample shop's data to gold, and show it."""
    from lakehouse.cli.walkthrough import walk

    walk(Console())


def up(
    only: Only = "",
    stay: Annotated[bool, typer.Option("--stay", help="Stay until told to end, then stop the stack.")] = False,
) -> None:
    """Start the stack, or what is missing of it, and wait until it is healthy."""
    from lakehouse.cli.walkthrough import start

    if not stay:
        start(Console(), only)
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit())
    try:
        start(Console(), only)
        threading.Event().wait()
    finally:
        down()


def fetch() -> None:
    """Fetch the jars and MinIO, so that a later start needs no network."""
    from lakehouse.cli.walkthrough import fetch as fetch_all

    fetch_all(Console())


def down() -> None:
    """Stop the stack; its data stays."""
    from lakehouse.settings import settings
    from lakehouse.stack import lifecycle

    with Console().status("stopping") as shown:
        lifecycle.down(settings(), lambda service, state: shown.update(f"{service} {state}"))


def status(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show each service: state, health, process, uptime, address. Exits with 1 unless all are healthy."""
    from lakehouse.settings import settings
    from lakehouse.stack import lifecycle

    found = lifecycle.status(settings())
    if as_json:
        typer.echo(json.dumps([one.as_dict() for one in found], indent=2))
    else:
        table = Table("service", "state", "health", "pid", "uptime", "address", box=None, pad_edge=False)
        for one in found:
            health = "[green]healthy" if one.healthy else "[red]unhealthy" if one.pid else ""
            uptime = str(timedelta(seconds=int(one.uptime))) if one.pid else ""
            table.add_row(one.service, one.state, health, str(one.pid or ""), uptime, one.address)
        Console().print(table)
    raise typer.Exit(0 if all(one.healthy for one in found) else 1)


def doctor() -> None:
    """Check that this machine can run the stack."""
    from lakehouse.settings import settings
    from lakehouse.stack import lifecycle
    from lakehouse.stack.doctor import examine

    findings = list(examine(settings(), lifecycle.not_running(settings())))
    console = Console(highlight=False)
    for finding in findings:
        mark = "[green]ok[/]  " if finding.ok else "[red]fail[/]"
        console.print(f"{mark} {finding.check}: {finding.says}", soft_wrap=True)
    raise typer.Exit(0 if all(finding.ok for finding in findings) else 1)


def logs(
    service: Annotated[str, typer.Argument(help="As `lakehouse status` names it.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on showing what is written.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many lines, from the end.")] = 50,
) -> None:
    """Show a service's log."""
    from lakehouse.settings import settings
    from lakehouse.stack import paths

    log = paths.log_file(settings(), service)
    if not log.exists():
        known = ", ".join(sorted(path.stem for path in paths.logs(settings()).glob("*.log"))) or "none yet"
        raise LakehouseError(f"There is no log of {service!r}: there are {known}.")
    os.execvp("tail", ["tail", "-n", str(lines), *(["-F"] if follow else []), str(log)])  # noqa: S606


def reset(yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Stop the stack and delete its data; secrets stay."""
    from lakehouse.settings import settings
    from lakehouse.stack import lifecycle

    if not yes:
        typer.confirm(f"Delete everything in {settings().home}?", abort=True)
    lifecycle.reset(settings())


def airflow(context: typer.Context) -> None:
    """Run an airflow command with the stack's settings."""
    from lakehouse.settings import environment, settings
    from lakehouse.stack.airflow_env import airflow_environment
    from lakehouse.stack.spark import script

    program = str(script("airflow"))
    os.execve(program, [program, *context.args], {**environment(), **airflow_environment(settings())})  # noqa: S606
