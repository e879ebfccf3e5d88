"""`lakehouse health`: how healthy the tables are, and why."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.table import show
from lakehouse.errors import Failures, LakehouseError
from lakehouse.identities import acting_as
from lakehouse.roles import Role
from lakehouse.wording import ago, size

if TYPE_CHECKING:
    from lakehouse.health.inspected import Inspected
    from lakehouse.health.model import PartitionHealth


@acting_as(Role.MAINTENANCE)
def health(
    table: Annotated[str | None, typer.Argument(help="Such as silver.orders, or a companion; else all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs, with every partition.")] = False,
    history: Annotated[int, typer.Option(min=0, help="Show so many earlier measurements instead.")] = 0,
    partitions: Annotated[int, typer.Option(min=0, help="Of one table: how many of the worst partitions.")] = 5,
) -> None:
    """Show each table's score from 0 to 100 and what it is made of. Metadata is read, data is not."""
    from lakehouse.contracts import contracts
    from lakehouse.health.inspected import inspect, inspect_all, owner

    now, failures = datetime.now(UTC), Failures()
    if history:
        if not table:
            raise LakehouseError("name the table whose history is asked for, such as silver.orders")
        _show_history(table, history)
        return
    if table:
        one = inspect(table, owner(table, contracts()), now)
        found = [one] if one else []
    else:
        found = []
        for contract in contracts():
            with failures.of(contract.dataset):
                found += inspect_all([contract], now)
    if as_json:
        typer.echo(json.dumps([_document(one) for one in found], indent=2))
    elif table and found:
        _show_one(found[0], now, partitions)
    else:
        _show_all(found, now)
    failures.check()


def _show_all(found: list[Inspected], now: datetime) -> None:
    rows: list[tuple[Any, ...]] = [
        (
            *(one.name, one.score.total, one.health.files, size(one.health.bytes), size(one.health.median_bytes)),
            *(f"{one.health.small_share:.0%}", f"{one.health.deleted_share:.0%}", f"{one.health.files_to_open:.1f}"),
            *(one.health.snapshots, ago(one.health.written_at, now), "; ".join(each.told for each in one.concerns)),
        )
        for one in found
    ]
    head = ["table", "score", "files", "size", "median", "small", "deleted", "opens", "versions", "written", "concern"]
    show(head, rows)


def _show_one(one: Inspected, now: datetime, partitions: int) -> None:
    """The score, each of its parts with its reason, and the partitions that need most."""
    facts = one.health
    typer.echo(f"{one.name}: {one.score.total} of 100")
    show(["", "points", "of", "why"], [(part.name, part.points, part.of, part.why) for part in one.score.parts])
    typer.echo(
        f"{facts.files} files of {size(facts.bytes)} hold {facts.rows} rows; the largest 5 % are above "
        f"{size(facts.p95_bytes)}. Rows last changed {ago(facts.written_at, now)}. Its metadata is "
        f"{size(facts.metadata_bytes)}, with {facts.branches} branches and {facts.tags} tags."
    )
    if worst := _worst(facts.partitions)[:partitions]:
        show(
            ["partition", "files", "size", "small", "deleted", "opens for each needed"], [_row(each) for each in worst]
        )


def _worst(found: tuple[PartitionHealth, ...]) -> list[PartitionHealth]:
    return sorted(found, key=lambda one: (-one.amplification, -one.deleted_share, one.name))


def _row(one: PartitionHealth) -> tuple[Any, ...]:
    share = f"{one.deleted_share:.0%}"
    return (
        one.name or "the whole table",
        one.files,
        size(one.bytes),
        one.small_files,
        share,
        round(one.amplification, 1),
    )


def _show_history(table: str, limit: int) -> None:
    from lakehouse.ledger.health import recent

    rows = [
        (
            *(one.at, one.score, one.facts.files, size(one.facts.bytes), size(one.facts.median_bytes)),
            *(f"{one.facts.small_share:.0%}", f"{one.facts.deleted_share:.0%}", one.facts.snapshots),
        )
        for one in recent(table, limit)
    ]
    show(["at", "score", "files", "size", "median", "small", "deleted", "versions"], rows)


def _document(one: Inspected) -> dict[str, Any]:
    return {
        "table": one.name,
        "score": one.score.total,
        "parts": [part.model_dump() for part in one.score.parts],
        "concerns": [each.model_dump() for each in one.concerns],
        **one.health.model_dump(mode="json"),
    }
