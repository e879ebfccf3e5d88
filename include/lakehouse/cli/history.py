"""Commands that go back in time: snapshots, diff, rollback, lineage, rebuild."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.tree import Tree

from lakehouse.cli.intervals import interval as interval_of
from lakehouse.cli.lease import leased
from lakehouse.cli.table import show
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.lineage import Node

Dataset = Annotated[str, typer.Argument(help="Such as silver.orders.")]
VERSION = "Branch or tag, snapshot id, or ISO time"


def snapshots(
    dataset: Dataset, limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 30
) -> None:
    """Show a dataset's versions, newest first: when, batch and run, what changed, which names point to it."""
    from lakehouse.timeline import timeline
    from lakehouse.versions import existing

    rows = [
        (
            *(f"{one.at:%Y-%m-%d %H:%M:%S}", one.snapshot, one.operation, f"+{one.added}", f"-{one.removed}"),
            *(one.batch_id, one.run, ", ".join(one.refs), "" if one.in_main else "not in main"),
        )
        for one in timeline(existing(dataset))[:limit]
    ]
    show(["at", "snapshot", "operation", "added", "removed", "batch", "run", "refs", ""], rows)


def diff(
    dataset: Dataset,
    old: Annotated[str, typer.Argument(help=f"{VERSION}.")],
    new: Annotated[str, typer.Argument(help=f"{VERSION}; main if left out.")] = "main",
    sample: Annotated[int, typer.Option(min=0, help="How many differing rows to show.")] = 10,
) -> None:
    """Show what is different between two versions: rows added, removed, changed."""
    from lakehouse.contracts import contract
    from lakehouse.diff import difference
    from lakehouse.versions import existing, version

    table = existing(dataset)
    before, after = (version(dataset, table, one) for one in (old, new))
    found = difference(contract(dataset), table, before, after, sample)
    typer.echo(", ".join(f"{count} {what}" for what, count in found.counts.items()))
    if found.sample:
        show(["", *found.columns], found.sample)


def rollback(
    dataset: Dataset,
    to: Annotated[str, typer.Option(help=f"{VERSION}: where main goes. A later one rolls forward.")] = "",
    why: Annotated[str, typer.Option(help="Kept with the rollback.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it; else it is only shown what would change.")] = False,
    log: Annotated[bool, typer.Option("--log", help="Show the rollbacks there were, newest first.")] = False,
) -> None:
    """Bring a dataset back to one of its versions: first shown, then done with --yes."""
    if log:
        _rollbacks(dataset)
        return
    if not to:
        raise LakehouseError("say where main goes, with --to; `lakehouse snapshots` shows the versions there are")
    from lakehouse.contracts import contract, contracts
    from lakehouse.rollback.told import roll_back

    asked = contract(dataset)
    if yes and not why:
        raise LakehouseError("say why, with --why: it is kept with the rollback")
    with leased(dataset):
        for line in roll_back(asked, to, contracts(), by=getpass.getuser(), why=why, apply=yes):
            typer.echo(line)
    if not yes:
        typer.echo("Do it with --yes --why '…'.")


def _rollbacks(dataset: str) -> None:
    from lakehouse.ledger.rollbacks import recent

    rows = []
    for one in recent(dataset):
        own = one["moves"][-1]
        rows.append((one["at"], one["by"], own["before"], own["after"], len(one["undone"]), one["state"], one["why"]))
    show(["at", "by", "from", "to", "undone", "state", "why"], rows)


def lineage(dataset: Dataset, at: Annotated[str | None, typer.Option(help=f"{VERSION}; else main.")] = None) -> None:
    """Show the versions that a version was made from, and theirs."""
    from lakehouse.lineage import lineage as tree_of
    from lakehouse.versions import existing, version

    node = tree_of(dataset, version(dataset, existing(dataset), at))
    # As wide as it takes: a tree is cut at the console's width, and an id that is cut off is of no use.
    Console(width=500, highlight=False).print(_tree(node))


def rebuild(
    dataset: Dataset,
    interval: Annotated[str, typer.Option(help="The interval that begins then, such as 2026-01-01.")],
    as_of: Annotated[str | None, typer.Option(help=f"{VERSION}; else main.")] = None,
) -> None:
    """Build a published batch once more from the versions it was made from, beside the table, and compare."""
    from lakehouse.contracts import contract
    from lakehouse.local_jobs import run_job
    from lakehouse.rebuild import rebuild as build_again

    asked = contract(dataset)
    with leased(dataset) as attempt:
        done = build_again(asked, interval_of(asked, interval), as_of, attempt, run_job)
    typer.echo(f"{done.batch.batch_id}: {done.rows} rows at {done.snapshot}")
    typer.echo(f"then {done.then}\nnow  {done.now}")
    if not done.same_code:
        typer.echo("The code has changed since.")
    if not done.equal:
        raise LakehouseError(f"{dataset}: the rows are not the same")
    typer.echo("The rows are the same.")


def _tree(node: Node) -> Tree:
    told = f"{node.dataset} @ {node.snapshot or 'nothing'}"
    told += f"  {node.batch_id}  contract {node.contract}  code {node.code}" if node.batch_id else ""
    tree = Tree(told if node.known else f"{told}  expired")
    for one in node.inputs:
        tree.add(_tree(one))
    return tree
