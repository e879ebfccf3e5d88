"""`lakehouse alert`: try the channels, see what was told to whom, and the schema of what receivers get."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.table import show
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.alerts import Alert
    from lakehouse.ledger.outbox import Delivery, Event

alert = typer.Typer(no_args_is_help=True)


@alert.command("test")
def send_test(
    route: Annotated[str, typer.Option(help="Only this channel: log, webhook, or a route's name.")] = "",
) -> None:
    """Send a test alert through each channel, whatever it is for. Exits with 1 if one did not take it."""
    from lakehouse import alerts

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    wrong = _tell_problems()
    known = alerts.channels()
    if route and route not in known:
        raise LakehouseError(f"there is no alert route {route}; there are {', '.join(known)}")
    made = alerts.trial(datetime.now(UTC))
    rows = [(name, _outcome(send, made)) for name, send in known.items() if route in ("", name)]
    show(["channel", "outcome"], rows)
    raise typer.Exit(1 if wrong or any(outcome != "delivered" for _, outcome in rows) else 0)


@alert.command("list")
def listing(
    limit: Annotated[int, typer.Option(min=1, help="How many events, newest first.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show what was told, newest first: to whom, after how many tries, and what went wrong."""
    from lakehouse.ledger.outbox import recent

    found = recent(limit)
    if as_json:
        typer.echo(json.dumps([_as_dict(event) for event in found], indent=2))
        return
    _tell_problems()
    columns = ["at", "event", "severity", "summary", "channel", "state", "tries", "error", "alert"]
    show(columns, [_row(event, delivery) for event in found for delivery in event.deliveries])


@alert.command()
def schema() -> None:
    """Write the JSON Schema of what a webhook receives."""
    from lakehouse.alerts.model import SCHEMA_FILE, json_schema

    SCHEMA_FILE.write_text(json_schema(), encoding="utf-8")
    typer.echo(f"wrote {SCHEMA_FILE}")


@alert.command()
def drop(route: Annotated[str, typer.Argument(help="A route that the settings no longer have.")]) -> None:
    """Give up the alerts that wait for a route which is no more; they stay listed, as set aside."""
    from lakehouse import alerts

    typer.echo(f"{alerts.drop(route, datetime.now(UTC))} message(s) to {route} dropped")


def _tell_problems() -> bool:
    """Say what is wrong with the settings; whether anything is."""
    from lakehouse import alerts

    for problem in alerts.problems():
        typer.echo(problem, err=True)
    return bool(alerts.problems())


def _outcome(send: Callable[[dict[str, Any]], None], made: Alert) -> str:
    from lakehouse.ledger.outbox import tried

    error = tried(send, made.model_dump(mode="json"))
    return str(error) if error else "delivered"


def _row(event: Event, delivery: Delivery) -> tuple[Any, ...]:
    told = event.payload
    what = (f"{event.created_at:%Y-%m-%d %H:%M:%S}", told["event"], told.get("severity"), told["summary"])
    return (*what, delivery.channel, delivery.state, delivery.tries, delivery.error, told["alert_id"])


def _as_dict(event: Event) -> dict[str, Any]:
    deliveries = [
        {"channel": d.channel, "state": d.state, "tries": d.tries, "error": d.error, "at": _at(d)}
        for d in event.deliveries
    ]
    return {"alert": event.payload, "at": event.created_at.isoformat(), "deliveries": deliveries}


def _at(delivery: Delivery) -> str:
    """When it was delivered or set aside, or is tried next."""
    return (delivery.delivered_at or delivery.failed_at or delivery.next_try_at).isoformat()
