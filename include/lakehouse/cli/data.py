"""Commands that look at data: query, batches, gates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.table import show, text, write
from lakehouse.identities import acting_as
from lakehouse.intervals import shown
from lakehouse.roles import Role

if TYPE_CHECKING:
    from lakehouse.batch import Batch


def query(
    sql: Annotated[str, typer.Argument(help="One statement that reads, such as SELECT * FROM gold.daily_sales.")],
    at: Annotated[
        str | None, typer.Option(help="Branch or tag, snapshot id, or ISO time; else main as it is now.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list of objects; decimals as text.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV with a head line.")] = False,
    role: Annotated[
        Role, typer.Option("--as", help="In which role; a reader sees silver and gold, transform all layers.")
    ] = Role.READER,
) -> None:
    """Ask the lake's tables in SQL, read only. Audit branches are seen only when --at names one."""
    from lakehouse.query import run_sql

    if as_json and as_csv:
        raise typer.BadParameter("choose one of --json and --csv")
    with acting_as(role):
        columns, rows = run_sql(sql, at)
    if as_json:
        typer.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2, default=text))
    elif as_csv:
        write(columns, rows, ",")
    else:
        show(columns, rows)


def batches(
    dataset: Annotated[str, typer.Argument(help="Such as silver.orders.")],
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show a dataset's batches, newest first: interval, batch, state, counts, when it was published."""
    from lakehouse.contracts import contracts

    found = _recent(dataset, limit)
    if as_json:
        typer.echo(json.dumps([batch.model_dump(mode="json") for batch in found], indent=2))
        return
    zone = next((one.timezone for one in contracts() if one.dataset == dataset), "UTC")
    rows = [
        (
            *(shown(b.interval, zone), b.batch_id, b.state, _counts(b.counts)),
            *(_seconds(b.measures), int(b.measures.get("bytes_out", 0)), _snapshot(b), b.published_at),
        )
        for b in found
    ]
    show(["interval", "batch", "state", "counts", "seconds", "bytes", "snapshot", "published"], rows)


def gates(
    dataset: Annotated[str, typer.Argument(help="Such as silver.orders.")],
    limit: Annotated[int, typer.Option(min=1, help="How many verdicts, newest first.")] = 30,
    wrong: Annotated[bool, typer.Option("--wrong", help="Only those that failed or warned.")] = False,
) -> None:
    """Show what gates found in a dataset's batches, newest first."""
    from lakehouse.contracts import contract
    from lakehouse.ledger.gates import recent

    contract(dataset)
    rows = [
        (one["at"], one["batch_id"], one["gate"], one["verdict"], one["found"], "\n".join(one["sample"] or ()))
        for one in recent(dataset, limit, wrong=wrong)
    ]
    show(["at", "batch", "gate", "verdict", "found", "rows"], rows)


def _recent(dataset: str, limit: int) -> list[Batch]:
    """The ledger's newest batches; a dataset that neither ledger nor contracts know is an error."""
    from lakehouse.contracts import contract
    from lakehouse.ledger.batches import recent

    found = recent(dataset, limit)
    if not found:
        contract(dataset)
    return found


def _seconds(measures: dict[str, float]) -> str:
    return " ".join(f"{name[:-2]}={value:.1f}" for name, value in measures.items() if name.endswith("_s"))


def _snapshot(batch: Batch) -> int | None:
    return next((write.head for write in batch.writes if write.table == batch.dataset), None)


def _counts(counts: dict[str, int]) -> str:
    return " ".join(f"{name}={count}" for name, count in counts.items() if count or name == "rows_in")
