"""The `lakehouse` command.

A command is a line in COMMANDS and a function (or a typer app) of the same name in a module of this package. Only the
module of the command that was asked for is imported, so that one command does not pay for the libraries of another.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import typer

from lakehouse.errors import LakehouseError

COMMANDS = {
    "run": ("stack", "Start everything, bring the sample shop's data to gold, and show it."),
    "up": ("stack", "Start the stack, or what is missing of it, and wait until it is healthy."),
    "fetch": ("stack", "Fetch the jars and MinIO, so that a later start needs no network."),
    "down": ("stack", "Stop the stack; its data stays."),
    "status": ("stack", "Show each service: state, health, process, uptime, address."),
    "doctor": ("stack", "Check that this machine can run the stack."),
    "logs": ("stack", "Show a service's log."),
    "reset": ("stack", "Stop the stack and delete its data; secrets stay."),
    "airflow": ("stack", "Run an airflow command with the stack's settings."),
    "secrets": ("secrets", "Change all secrets of the stack."),
    "store": ("store", "Make the store's buckets and identities."),
    "spark": ("spark", "Write the properties files that a Spark of your own needs."),
    "contracts": ("contracts", "Check contracts, and make their schema and reference page."),
    "sample": ("sample", "Write the landing files of a synthetic shop."),
    "land": ("land", "Put files into a dataset's landing folder."),
    "landing": ("landing", "Show what is in an interval's landing folder, and what it waits for."),
    "query": ("data", "Ask the tables in SQL."),
    "batches": ("data", "Show a dataset's batches: interval, state, counts."),
    "gates": ("data", "Show what gates found in a dataset's batches."),
    "snapshots": ("history", "Show a dataset's versions: when, which batch and run, what changed."),
    "diff": ("history", "Show what is different between two versions of a dataset."),
    "rollback": ("history", "Bring a dataset back, or forward, to one of its versions."),
    "lineage": ("history", "Show the versions that a version was made from."),
    "rebuild": ("history", "Build a published batch once more, beside the table, and compare."),
    "pin": ("pins", "Keep a version under a name."),
    "pins": ("pins", "Show what is pinned, and until when."),
    "unpin": ("pins", "Take a pin away."),
    "backfill": ("backfill", "Build what is missing or outdated in a range of days, across layers."),
    "quarantine": ("quarantine", "Look at rejected records, replay them, give them up."),
    "health": ("health", "Show how healthy the tables are, and why."),
    "maintain": ("maintain", "Keep tables healthy; with --dry-run only say what they need, and why."),
    "maintenance": ("maintain", "Show what maintenance did."),
    "backup": ("backup", "Keep catalog, ledger and the objects they name in a folder."),
    "restore": ("backup", "Bring a backup back into an empty platform."),
    "watch": ("watch", "Evaluate the SLAs, and tell on-call what is late."),
    "sla": ("sla", "Show which intervals are there, awaited, missed; mute a dataset."),
    "alert": ("alert", "Try the alert channels, and see what was told to whom."),
}


def build(arguments: Sequence[str]) -> typer.Typer:
    """The command line: the command that is asked for, and only names and help of all others."""
    app = typer.Typer(
        help="An Iceberg lakehouse: its services, its contracts, its data.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    # Without a callback, an app of one command would not expect its name.
    app.callback()(_nothing)
    asked = next((argument for argument in arguments if not argument.startswith("-")), "")
    for name, (module, summary) in COMMANDS.items():
        _add(app, name, module, summary, load=name == asked)
    return app


def _add(app: typer.Typer, name: str, module: str, summary: str, *, load: bool) -> None:
    found = getattr(import_module(f"{__name__}.{module}"), name) if load else _nothing
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, help=summary)
    else:
        # Options of the program behind it, as in `lakehouse airflow dags list --output json`, are not ours to read.
        passes_on = {"allow_extra_args": True, "ignore_unknown_options": True} if name == "airflow" else {}
        app.command(name, short_help=summary, context_settings=passes_on)(found)


def _nothing() -> None:
    """An Iceberg lakehouse: its services, its contracts, its data."""


def main() -> None:
    """Run the command; what it cannot do is said in one sentence, with exit code 1."""
    try:
        build(sys.argv[1:])(prog_name="lakehouse")
    except LakehouseError as error:
        sys.exit(f"lakehouse: {error}")
