"""The command itself."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from lakehouse.cli import COMMANDS
from lakehouse.cli.table import show

LAKEHOUSE = Path(sys.executable).parent / "lakehouse"


def test_help_names_every_command() -> None:
    shown = subprocess.run([LAKEHOUSE, "--help"], capture_output=True, text=True, check=True).stdout
    assert [name for name in COMMANDS if name not in shown] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_table_says(name) -> None:
    assert getattr(import_module(f"lakehouse.cli.{COMMANDS[name][0]}"), name)


def test_help_imports_no_commands_library() -> None:
    code = "import sys; from lakehouse.cli import build; build(['--help']); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"boto3", "pyiceberg", "sqlalchemy", "duckdb", "airflow", "pyspark"} & set(loaded)


@pytest.mark.parametrize(("columns", "framed"), [(200, True), (40, False)])
def test_a_table_that_does_not_fit_the_terminal_is_shown_row_by_row(columns, framed, monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    show(["snapshot", "batch"], [(6635589809107500567, "silver_orders-20261115T0000")])
    shown = capsys.readouterr().out
    assert "6635589809107500567" in shown
    assert "silver_orders-20261115T0000" in shown
    assert ("│" in shown) == framed
