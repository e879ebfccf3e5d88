"""`lakehouse backfill`: builds what is missing or outdated in a range of days, across layers, through Airflow."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from lakehouse.cli.table import show
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.backfill.execute import Execution
    from lakehouse.backfill.facts import Asked
    from lakehouse.backfill.plan import Plan
    from lakehouse.backfill.scope import Contracts
    from lakehouse.backfill.told import Outcome

INTERRUPTED = 130


def backfill(
    dataset: Annotated[str, typer.Argument(help="Such as silver.orders.")],
    start_date: Annotated[
        str | None, typer.Option("-s", "--start-date", help="First day, or begin of the first interval.")
    ] = None,
    end_date: Annotated[
        str | None, typer.Option("-e", "--end-date", help="Last day, inclusive; without it, the first.")
    ] = None,
    upstream: Annotated[bool, typer.Option("--upstream", help="Also what it is made from.")] = False,
    downstream: Annotated[bool, typer.Option("--downstream", help="Also what is made from it.")] = False,
    only_missing: Annotated[
        bool, typer.Option("--only-missing", help="Only what is not there, and what depends on that.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Every interval, also those that need nothing.")] = False,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Show the plan, and start nothing.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Build what is missing, failed or outdated in a range of days, layer by layer, and wait for it.

    Ctrl-C leaves running what was started; the same command then does what is left.
    """
    from lakehouse.backfill.airflow import Backfills
    from lakehouse.backfill.execute import Execution, refuse_paused
    from lakehouse.backfill.facts import planned
    from lakehouse.contracts import contracts
    from lakehouse.settings import settings

    if only_missing and everything:
        raise typer.BadParameter("choose one of --only-missing and --all")
    known = {one.dataset: one for one in contracts()}
    asked = _asked(dataset, (start_date, end_date), (upstream, downstream), (only_missing, everything))

    def replan() -> Plan:
        return planned(asked, known, api, datetime.now(UTC))

    with Backfills(settings()) as api:
        plan = replan()
        _show(plan, known)
        if dry_run:
            typer.echo("nothing was started")
            return
        refuse_paused(plan, api)
        if plan.steps and not yes:
            _confirm(f"Build {len(plan.steps)} intervals?")
        outcomes = _run(Execution(api, known, replan, typer.echo), plan)
    _tell_end(outcomes, plan, known)


def _asked(
    dataset: str, dates: tuple[str | None, str | None], kin: tuple[bool, bool], only: tuple[bool, bool]
) -> Asked:
    from lakehouse.backfill.days import span
    from lakehouse.backfill.facts import Asked
    from lakehouse.backfill.plan import Mode
    from lakehouse.contracts import contract

    first, last = dates[0] or dates[1], dates[1] or dates[0]
    if first is None or last is None:
        raise LakehouseError("say which days: -s 2026-01-01 -e 2026-01-07")
    only_missing, everything = only
    mode = Mode.MISSING if only_missing else Mode.ALL if everything else Mode.NEEDED
    return Asked(dataset, span(first, last, ZoneInfo(contract(dataset).timezone)), *kin, mode)


def _show(plan: Plan, contracts: Contracts) -> None:
    from lakehouse.backfill.told import COLUMNS, lacking, rows_of
    from lakehouse.ledger.batches import settled

    if plan.steps:
        show(COLUMNS, list(rows_of(plan, contracts, {name: settled(name) for name in plan.datasets})))
    elif not plan.blocked:
        typer.echo("nothing to do: every interval is there, and as its inputs would have it")
    for line in lacking(plan, contracts):
        typer.echo(line)


def _confirm(question: str) -> None:
    """Go on only after a yes; where nobody can answer, that is a no."""
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise LakehouseError("nothing was done; say yes, or pass -y")


def _run(execution: Execution, plan: Plan) -> list[Outcome]:
    try:
        return execution.run(plan)
    except KeyboardInterrupt:
        started = execution.goes_on or "nothing is running"
        typer.echo(f"\ninterrupted; {started}; the same command does what is left", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _tell_end(outcomes: list[Outcome], plan: Plan, contracts: Contracts) -> None:
    from lakehouse.backfill.told import verdict

    if wrong := verdict(outcomes, plan, contracts):
        raise LakehouseError(wrong)
    if outcomes:
        typer.echo(f"{len(outcomes)} intervals built: " + ", ".join(_counts(plan)))


def _counts(plan: Plan) -> list[str]:
    return [f"{name} {len(plan.of(name))}" for name in plan.datasets]
