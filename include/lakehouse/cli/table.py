"""Rows on a terminal, in a pipe or a file."""

from __future__ import annotations

import csv
import sys
from datetime import datetime
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Rows = list[tuple[Any, ...]]
_LEAST_TO_FOLD_INTO = 30


def text(value: Any) -> str:
    """A value as text that programs can read back."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="auto")
    if isinstance(value, bytes):
        return value.hex()
    return "" if value is None else str(value)


def show(columns: list[str], rows: Rows) -> None:
    """A table on a terminal; its last column in several lines, or all row by row, if it does not fit.

    For a pipe, lines with tabs between the values.
    """
    console = Console()
    if not console.is_terminal:
        write(columns, rows, "\t")
        return
    fits = not rows or _width(console, columns, rows) <= console.width
    folds = _width(console, columns[:-1], rows) + _LEAST_TO_FOLD_INTO <= console.width
    console.print(_table(columns, rows) if fits or folds else _row_by_row(columns, rows))
    console.print(f"{len(rows)} row{'' if len(rows) == 1 else 's'}", style="dim")


def _width(console: Console, columns: list[str], rows: Rows) -> int:
    """How wide a table of these columns is when no value is broken up."""
    return console.measure(_table(columns, rows), options=console.options.update(width=10_000)).maximum


def _table(columns: list[str], rows: Rows) -> Table:
    """Only the last column may be broken up."""
    table = Table(header_style="bold")
    for position, name in enumerate(columns):
        numbers = all(isinstance(row[position], int | float | Decimal | None) for row in rows)
        last = position == len(columns) - 1
        table.add_column(Text(name), justify="right" if numbers else "left", overflow="fold", no_wrap=not last)
    for row in rows:
        # Text, not markup: a value in square brackets is data.
        table.add_row(*(Text(text(value)) for value in row[: len(columns)]))
    return table


def _row_by_row(columns: list[str], rows: Rows) -> Table:
    """Each row as lines of name and value, so that no value is broken up by a narrow column."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="bold", no_wrap=True)
    lines.add_column(overflow="fold")
    for number, row in enumerate(rows):
        if number:
            lines.add_row()
        for name, value in zip(columns, row, strict=True):
            lines.add_row(Text(name), Text(text(value)))
    return lines


def write(columns: list[str], rows: Rows, between: str) -> None:
    """Lines with a separator between the values, quoted where they need it, after a head line."""
    writer = csv.writer(sys.stdout, delimiter=between, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([text(value) for value in row] for row in rows)
