"""`lakehouse quarantine`: rejected records, and what to do about them."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakehouse.cli.intervals import interval as interval_of
from lakehouse.cli.lease import leased
from lakehouse.cli.table import show
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.contracts import Silver

quarantine = typer.Typer(no_args_is_help=True)
Dataset = Annotated[str, typer.Argument(help="Such as silver.orders.")]
Reason = Annotated[str | None, typer.Option(help="Only records that broke this rule, such as amount.check.")]
IntervalStart = Annotated[
    str | None, typer.Option("--interval", help="Only the interval that begins then, such as 2026-01-01.")
]
Why = Annotated[str, typer.Option(help="Kept with each record.")]


@quarantine.command("list")
def listing(dataset: Annotated[str | None, typer.Argument(help="Such as silver.orders; else all.")] = None) -> None:
    """Show how many records wait, by dataset, interval and reason."""
    from lakehouse import naming
    from lakehouse.catalog import table
    from lakehouse.contracts import contracts
    from lakehouse.quarantine import summary

    asked = [_contract(dataset).dataset] if dataset else [c.dataset for c in contracts("silver")]
    there = [name for name in asked if table(naming.quarantine_table(name)) is not None]
    rows = [(name, *row) for name in there for row in summary(name)[1]]
    show(["dataset", "interval", "reason", "records"], rows)


@quarantine.command("show")
def show_records(
    dataset: Dataset,
    reason: Reason = None,
    interval: IntervalStart = None,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
) -> None:
    """Show rejected records as they came, with the rules they broke."""
    from lakehouse.quarantine import records

    contract = _contract(dataset)
    show(*records(contract.dataset, reason, _start(contract, interval), limit))


@quarantine.command()
def replay(dataset: Dataset, why: Why, reason: Reason = None, interval: IntervalStart = None) -> None:
    """Put rejected records through the rules again, after the contract was mended."""
    _resolve(dataset, "replayed", why, reason, interval)


@quarantine.command()
def discard(dataset: Dataset, why: Why, reason: Reason = None, interval: IntervalStart = None) -> None:
    """Give rejected records up; they stay in quarantine, marked."""
    _resolve(dataset, "discarded", why, reason, interval)


def _resolve(
    dataset: str, resolution: Literal["replayed", "discarded"], why: str, reason: str | None, interval: str | None
) -> None:
    from lakehouse.jobs import Chosen
    from lakehouse.local_jobs import run_job
    from lakehouse.quarantine import outcome, resolve

    contract, user = _contract(dataset), getpass.getuser()
    chosen = Chosen(resolution=resolution, by=user, why=why, reason=reason, interval_start=_start(contract, interval))
    with leased(dataset) as attempt:
        counts = resolve(contract, chosen, attempt, run_job)
    typer.echo(outcome(chosen, counts))


def _contract(dataset: str) -> Silver:
    from lakehouse.contracts import Silver, contract

    found = contract(dataset)
    if not isinstance(found, Silver):
        raise LakehouseError(f"{dataset} has no quarantine; only silver datasets have one")
    return found


def _start(contract: Silver, text: str | None) -> datetime | None:
    return interval_of(contract, text).start if text is not None else None
