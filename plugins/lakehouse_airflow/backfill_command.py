"""The command `airflow dags backfill` as it was in Airflow 2: its options, and its place in Airflow's command line.

Imported while Airflow is still starting: nothing here may touch models, the database or providers.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from airflow.cli import cli_config
from airflow.cli.cli_config import ActionCommand, GroupCommand, lazy_load_command

from lakehouse_airflow.backfill_gone import GONE

GROUP, NAME = "dags", "backfill"
# Airflow gives these no types.
Arg: Any = cli_config.Arg
positive_int: Any = cli_config.positive_int

OPTIONS = (
    cli_config.ARG_DAG_ID,
    Arg(("-s", "--start-date"), help="First day, or first logical date; a day is one of the DAG's time zone"),
    Arg(("-e", "--end-date"), help="Last day, inclusive; without it, the first"),
    Arg(("-n", "--dry-run"), help="Show the runs that would be made, and make none", action="store_true"),
    Arg(("--rerun-failed-tasks",), help="Run days again whose run has failed", action="store_true"),
    Arg(("--reset-dagruns",), help="Run days again whose run has ended, also the good ones", action="store_true"),
    Arg(("-B", "--run-backwards"), help="The newest day first", action="store_true"),
    Arg(
        ("--max-active-runs",),
        help="Days at a time; else as many as the DAG allows itself",
        type=positive_int(allow_zero=False),
    ),
    Arg(("-c", "--conf"), help="JSON object that the runs get as their conf"),
    cli_config.ARG_YES,
    cli_config.ARG_VERBOSE,
)
# Known, and not shown: who still types one learns what to use instead.
REFUSED = tuple(
    Arg(one.flags, help=argparse.SUPPRESS, **({} if one.value else {"action": "store_true"})) for one in GONE
)

COMMAND = ActionCommand(
    name=NAME,
    help="Run a DAG for a range of days, and wait for them",
    description=(
        "Make the runs of a range of days, both ends included, follow them to their end, and exit by their outcome. "
        "Ctrl-C leaves them running."
    ),
    func=lazy_load_command("lakehouse_airflow.backfill.backfill"),
    args=(*OPTIONS, *REFUSED),
)


def add_backfill() -> None:
    """Add the command to the group `dags`, unless Airflow has one of that name itself."""
    for place, group in enumerate(cli_config.core_commands):
        if group.name != GROUP or not isinstance(group, GroupCommand):
            continue
        if any(command.name == NAME for command in group.subcommands):
            print("airflow dags backfill: this is Airflow's own, the lakehouse's has stepped aside", file=sys.stderr)
        else:
            cli_config.core_commands[place] = group._replace(subcommands=(*group.subcommands, COMMAND))
