"""`lakehouse sla`: who is late, and of whom nobody wants to hear."""

from __future__ import annotations

import getpass
import json
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from lakehouse import watch as watching
from lakehouse.cli.table import show as show_table
from lakehouse.contracts import contract, contracts
from lakehouse.contracts.fields import read_duration
from lakehouse.errors import LakehouseError
from lakehouse.intervals import shown
from lakehouse.ledger import mutes as ledger
from lakehouse.sla import Kind, State, Verdict
from lakehouse.watch import Board
from lakehouse.wording import clock, length

sla = typer.Typer(help="Show which intervals are there, awaited, missed; mute a dataset.")
STYLES = {State.MET: "green", State.WAITING: "", State.MISSED: "bold red", State.EXEMPT: "dim", State.FREE: "dim"}
Json = Annotated[bool, typer.Option("--json", help="For programs.")]
Dataset = Annotated[str, typer.Argument(help="Such as silver.orders.")]


@sla.callback(invoke_without_command=True)
def show(context: typer.Context, as_json: Json = False) -> None:
    """Show the board: each dataset's newest interval, and every one that is missed."""
    if context.invoked_subcommand:
        return
    found = watching.board(datetime.now(UTC))
    if as_json:
        typer.echo(json.dumps([_as_dict(found, row) for row in found.verdicts], indent=2))
        return
    console = Console()
    console.print(_table(found))
    for mute in found.mutes.values():
        console.print(f"{mute.dataset} is muted until {clock(mute.until)} by {mute.by}: {mute.why}", style="dim")


@sla.command()
def mute(
    dataset: Dataset,
    until: Annotated[str, typer.Option(help="A time (UTC unless it says otherwise), or for how long, such as 2h.")],
    why: Annotated[str, typer.Option(help="Kept with the mute.")],
) -> None:
    """Tell nobody of a dataset's misses, nor of what waits behind it, until then. They are recorded all the same."""
    now, asked = datetime.now(UTC), contract(dataset).dataset
    end = _until(until, now)
    if not why.strip():
        raise LakehouseError("say why: --why 'the source moves house'")
    ledger.mute(asked, end, why=why, by=getpass.getuser(), now=now)
    typer.echo(f"{asked} is muted until {clock(end)}")


@sla.command()
def unmute(dataset: Dataset) -> None:
    """Tell of a dataset's misses again, also of those that are open."""
    if not ledger.unmute(dataset, datetime.now(UTC)):
        raise LakehouseError(f"{dataset} is not muted; `lakehouse sla mutes` lists what is")
    typer.echo(f"{dataset} is not muted any more")


@sla.command()
def mutes(as_json: Json = False) -> None:
    """List the mutes in force."""
    found = ledger.mutes(datetime.now(UTC)).values()
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=2, default=str))
        return
    rows = [(one.dataset, f"{one.until:%Y-%m-%d %H:%M}", one.by, one.why) for one in found]
    if rows:
        show_table(["dataset", "until (UTC)", "by", "why"], rows)
    else:
        typer.echo("nothing is muted")


def _until(text: str, now: datetime) -> datetime:
    if re.fullmatch(r"\d+[smhd]", text):
        return now + read_duration(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise LakehouseError(f"--until: '{text}' is no time; write 2026-01-31T06:00, or 2h, 3d") from None
    end = found if found.tzinfo else found.replace(tzinfo=UTC)
    if end <= now:
        raise LakehouseError(f"--until: {clock(end)} is over; name a time to come")
    return end


def _as_dict(board: Board, row: Verdict) -> dict[str, object]:
    miss = board.misses.get((row.dataset, str(row.interval), row.kind))
    muted = board.mutes.get(row.dataset)
    return {
        **row.as_dict(),
        "cause": str(miss.cause) if miss and miss.cause else None,
        "detail": miss.detail if miss else None,
        "root": miss.root if miss else None,
        "muted_until": muted.until.isoformat() if muted else None,
    }


def _table(board: Board) -> Table:
    widest = max((len(row.dataset) for row in board.verdicts), default=0)
    table = Table(Column("dataset", min_width=widest), "interval", "due (UTC)", "state", "lag", "why")
    zones = {one.dataset: one.timezone for one in contracts()}
    for row in board.verdicts:
        due = f"{row.due:%Y-%m-%d %H:%M}" if row.due else "–"
        state = ("stale" if row.kind is Kind.FRESH else str(row.state)) + (
            ", muted" if row.dataset in board.mutes and row.state is State.MISSED else ""
        )
        when, why = shown(row.interval, zones[row.dataset]), _why(board, row)
        table.add_row(row.dataset, when, due, state, _lag(row), why, style=STYLES[row.state])
    return table


def _why(board: Board, row: Verdict) -> str:
    """The cause as the watch has found it; where another dataset or a service is to blame, that one."""
    miss = board.misses.get((row.dataset, str(row.interval), row.kind))
    if miss is None or miss.cause is None or row.state is not State.MISSED:
        return ""
    return f"{miss.cause}" + (f": {miss.root}" if miss.root not in ("", miss.dataset) else "")


def _lag(row: Verdict) -> str:
    if row.state is State.MET or row.due is None:
        return ""
    return f"due in {length(-row.lag)}" if row.lag < timedelta(0) else length(row.lag)
