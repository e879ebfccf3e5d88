"""What `lakehouse up` and `lakehouse run` show: one line a step, with its time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from lakehouse.identities import acting_as
from lakehouse.roles import Role
from lakehouse.settings import Settings, settings
from lakehouse.stack import jars, lifecycle, minio, pipeline, rotation
from lakehouse.stack.secret_file import ensure_secrets

Update = Callable[[str], None]
GOLD = "SELECT * FROM gold.daily_sales ORDER BY 1 DESC, 2, 3"
ROWS_SHOWN = 20


@contextmanager
def step(console: Console, name: str) -> Iterator[Update]:
    """Show that a step is going on, what it is at, and in the end how long it took."""
    began = time.monotonic()
    with console.status(name) as shown:
        yield lambda text: shown.update(f"{name}: {text}")
    console.print(f"[green]✓[/] {name:<12} {time.monotonic() - began:6.1f} s", highlight=False)


def fetch(console: Console) -> None:
    """Jars and MinIO, each once per machine."""
    with step(console, "jars") as update:
        for use in ("spark", "catalog"):
            update(f"{use}, fetched once per machine")
            jars.ensure_jars(use)
    with step(console, "minio") as update:
        minio.ensure_minio(update)


def start(console: Console, only: str = "") -> Settings:
    """Secrets, what must be fetched, then the services."""
    rotation.refuse_half_way(settings())
    known = ensure_secrets()
    fetch(console)
    with step(console, "services") as update:
        lifecycle.up(known, only, lambda service, state: update(f"{service} {state}"))
    return known


def walk(console: Console) -> None:
    """The whole way, from nothing to rows in gold."""
    first = pipeline.ensure_start(ensure_secrets())
    last = pipeline.today() - timedelta(days=1)
    known = start(console)
    with step(console, "sample data") as update:
        update(f"{first} to {last}")
        _deliver(first, last)
    with step(console, "pipeline") as update:
        pipeline.run_pipeline(settings(), first, last, lambda progress: update(progress_line(progress)))
    show_gold(console)
    show_addresses(console, known)


def _deliver(first: Any, last: Any) -> None:
    from lakehouse.sample import deliver

    deliver(first, last)


def progress_line(progress: Mapping[str, Counter[str]]) -> str:
    states = ("queued", "running", "success")
    return ", ".join(
        f"{dag} " + "/".join(f"{counted[state]} {state}" for state in states if counted[state])
        for dag, counted in progress.items()
        if counted
    )


def show_gold(console: Console) -> None:
    """Print gold.daily_sales as a table."""
    from lakehouse.query import run_sql

    with acting_as(Role.READER):
        columns, rows = run_sql(GOLD)
    table = Table(*columns, title="gold.daily_sales")
    for row in rows[:ROWS_SHOWN]:
        table.add_row(*(str(value) for value in row))
    console.print(table)
    if len(rows) > ROWS_SHOWN:
        console.print(
            f"… and {len(rows) - ROWS_SHOWN} more rows: lakehouse query '{GOLD}'", highlight=False, soft_wrap=True
        )


def show_addresses(console: Console, known: Settings) -> None:
    """Where to look, and Airflow's login: the one secret that is ever printed."""
    rows = {
        "Airflow": f"{known.airflow_url}  ({known.airflow_user} / {known.airflow_password.get_secret_value()})",
        "MinIO": f"http://127.0.0.1:{known.minio_console_port}  (login in .env)",
        "Spark": f"http://127.0.0.1:{known.spark_ui_port}",
        "Shell": f"source {known.home / 'env'}",
    }
    for name, value in rows.items():
        console.print(f"{name:<8} {value}", highlight=False, soft_wrap=True)
