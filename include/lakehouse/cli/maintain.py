"""`lakehouse maintain` and `lakehouse maintenance`: what tables need, doing it, and what was done."""

from __future__ import annotations

import getpass
import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from lakehouse.cli.table import show
from lakehouse.errors import Failures
from lakehouse.identities import acting_as
from lakehouse.roles import Role
from lakehouse.wording import size

if TYPE_CHECKING:
    from lakehouse.contracts import AnyContract
    from lakehouse.maintenance.step import Plan, Step

maintenance = typer.Typer(no_args_is_help=True)


@acting_as(Role.MAINTENANCE)
def maintain(
    table: Annotated[str | None, typer.Argument(help="Such as silver.orders, or a companion; else all.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done, and why.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: for programs.")] = False,
) -> None:
    """Keep tables healthy: look at them, plan, act under each dataset's lease, check that nothing is lost."""
    from lakehouse.contracts import contracts
    from lakehouse.health.inspected import owner
    from lakehouse.ledger.database import now
    from lakehouse.maintenance.seen import plans
    from lakehouse.maintenance.told import INTRODUCTION, lines, total

    asked = [owner(table, contracts())] if table else contracts()
    if dry_run and not as_json:
        typer.echo(f"{INTRODUCTION}\n")
    everything: list[Plan] = []
    failures = Failures()
    for contract in asked:
        with failures.of(contract.dataset):
            found = list(plans(contract, now(), only=table))
            everything += [plan for _, plan in found]
            for inspected, plan in found if not as_json else ():
                typer.echo("\n".join(lines(inspected, plan)))
            if not dry_run:
                steps = [step for _, plan in found for step in plan.steps]
                _act(contract, steps, whole=table in (None, contract.dataset))
    if as_json:
        typer.echo(json.dumps([plan.model_dump(mode="json") for plan in everything], indent=2))
    elif dry_run:
        needed = any(plan.steps for plan in everything)
        typer.echo(f"\n{total(everything)}" + (" Do it: the same without --dry-run." if needed else ""))
    failures.check()


def _act(contract: AnyContract, steps: list[Step], *, whole: bool) -> None:
    """Carry the steps out; a dataset that is being written is left for another time. A companion alone is no turn."""
    from lakehouse.local_jobs import run_maintenance
    from lakehouse.maintenance.carried_out import PutOff, carry_out
    from lakehouse.maintenance.turn import turn
    from lakehouse.plan import Attempt
    from lakehouse.settings import settings

    attempt = Attempt(f"cli/{getpass.getuser()}/{uuid4().hex}", 1)
    try:
        with turn(contract.dataset) if whole else nullcontext():
            pause = settings().maintenance_pause_seconds
            for line in carry_out(contract, steps, attempt, run_maintenance, pause):
                typer.echo(line)
    except PutOff as put_off:
        typer.echo(f"put off: {put_off}")


@maintenance.command("log")
def show_log(
    table: Annotated[str | None, typer.Argument(help="Such as silver.orders; else all.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="For programs, with all that was measured.")] = False,
) -> None:
    """Show what maintenance did, newest first: why, before and after, what it cost, how it ended."""
    from lakehouse.ledger.maintenance import recent

    found = recent(table, limit)
    if as_json:
        typer.echo(json.dumps(found, indent=2, default=str))
        return
    head = ["at", "table", "operation", "reason", "files", "median", "score", "rows", "read", "written", "s", "outcome"]
    show(head, [_row(one) for one in found])


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    before, after = one["before"], one["after"] or {}
    medians = [size(each["median_bytes"]) if "median_bytes" in each else "?" for each in (before, after)]
    read, written = (size(one[name]) if one[name] is not None else "" for name in ("bytes_read", "bytes_written"))
    return (
        *(one["at"], one["table_name"], one["operation"], one["reason"], _change(before, after, "files")),
        *(" → ".join(medians), f"{one['score_before']} → {one['score_after']}", _change(before, after, "rows")),
        *(read, written, round(one["seconds"], 1), one["outcome"]),
    )


def _change(before: dict[str, Any], after: dict[str, Any], name: str) -> str:
    return f"{before.get(name, '?')} → {after.get(name, '?')}"
