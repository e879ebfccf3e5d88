"""`airflow dags backfill` among Airflow's commands: every option of Airflow 2 is known, what is gone is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lakehouse.settings import ROOT
from lakehouse_airflow.backfill_gone import GONE, refuse
from lakehouse_airflow.backfill_request import Refused

AIRFLOW = Path(sys.executable).parent / "airflow"
HONOURED = [
    *("-c", "--conf", "-n", "--dry-run", "-s", "--start-date", "-e", "--end-date", "-B", "--run-backwards"),
    *("--rerun-failed-tasks", "--reset-dagruns", "-v", "--verbose", "-y", "--yes"),
]
# With those above, all that the usage line of Airflow 2.11 lists.
NO_MORE = [
    *("--continue-on-failures", "--delay-on-limit", "--disable-retry", "-x", "--donot-pickle"),
    *("-i", "--ignore-dependencies", "-I", "--ignore-first-depends-on-past", "-l", "--local"),
    *("-m", "--mark-success", "--pool", "-S", "--subdir", "-t", "--task-regex"),
    *("--treat-dag-as-regex", "--treat-dag-id-as-regex"),
]


@pytest.fixture
def command() -> ModuleType:
    """Imported late: Airflow reads its configuration when it is imported, and other tests set it first."""
    from lakehouse_airflow import backfill_command

    return backfill_command


@pytest.fixture
def parser(command) -> ArgumentParser:
    made = ArgumentParser()
    for argument in command.COMMAND.args:
        argument.add_to_parser(made)
    return made


def test_every_option_of_airflow_2_is_known(command):
    assert {*HONOURED, *NO_MORE} <= {flag for argument in command.COMMAND.args for flag in argument.flags}


def test_what_is_gone_is_all_that_is_not_honoured():
    assert sorted(flag for one in GONE for flag in one.flags) == sorted(NO_MORE)


@pytest.mark.parametrize("one", GONE, ids=[one.dest for one in GONE])
@pytest.mark.parametrize("place", [0, -1])
def test_what_is_gone_is_refused_in_one_sentence_that_says_what_to_use(one, place, parser):
    words = ["-s", "2026-01-01", one.flags[place], *(["x"] if one.value else []), "silver_orders"]
    with pytest.raises(Refused) as refused:
        refuse(parser.parse_args(words))
    told = str(refused.value)
    assert told == f"{one.flags[-1]} is gone since Airflow 3; {one.instead}"
    assert "\n" not in told


def test_what_is_honoured_is_not_refused(parser):
    words = "-s 2026-01-01 -e 2026-01-02 -n -v -B -y -c {} --rerun-failed-tasks --reset-dagruns --max-active-runs 2 x"
    refuse(parser.parse_args(words.split()))


def of_dags(config: Any) -> list[str]:
    """The names of the commands of `airflow dags`."""
    return [one.name for group in config.core_commands if group.name == "dags" for one in group.subcommands]


def test_it_is_added_once_and_steps_aside_with_a_notice(command, monkeypatch, capsys):
    config = command.cli_config
    monkeypatch.setattr(config, "core_commands", list(config.core_commands))
    command.add_backfill()
    assert of_dags(config).count("backfill") == 1
    assert capsys.readouterr().err == ""
    command.add_backfill()  # as if Airflow had brought one of its own
    assert of_dags(config).count("backfill") == 1
    assert "stepped aside" in capsys.readouterr().err


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> dict[str, str]:
    """Airflow without a database: what it says before it needs one."""
    home = tmp_path_factory.mktemp("airflow")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEHOUSE_", "AIRFLOW"))}
    return {**kept, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins")}


def test_the_real_command_shows_what_it_honours_and_hides_what_is_gone(bare):
    words = [AIRFLOW, "dags", "backfill", "--help"]
    done = subprocess.run(words, env=bare, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert [flag for flag in HONOURED if flag.startswith("--") and flag not in done.stdout] == []
    assert [flag for flag in NO_MORE if flag.startswith("--") and flag in done.stdout] == []
