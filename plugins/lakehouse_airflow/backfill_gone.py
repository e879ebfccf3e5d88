"""Options that `airflow dags backfill` had in Airflow 2 and no longer has: each is refused with what to use instead."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from lakehouse_airflow.backfill_request import Refused

CLEAR = "to run some of a day's steps again, clear them: airflow tasks clear -s … -e … -t REGEX DAG"


@dataclass(frozen=True)
class Gone:
    """An option by its flags, whether a value follows it, and what to use instead."""

    flags: tuple[str, ...]
    instead: str
    value: bool = False

    @property
    def dest(self) -> str:
        """The name under which argparse keeps it."""
        return self.flags[-1].removeprefix("--").replace("-", "_")


GONE = (
    Gone(("-t", "--task-regex"), f"a day runs with all its steps; {CLEAR}", value=True),
    Gone(("-i", "--ignore-dependencies"), f"a day runs with all its steps; {CLEAR}"),
    Gone(
        ("-I", "--ignore-first-depends-on-past"),
        "leave it away, for no step of a dataset depends on the day before",
    ),
    Gone(
        ("-m", "--mark-success"),
        "a green run says that its interval is published; where a source has no data for a day, "
        "put an empty marker into its landing folder",
    ),
    Gone(("-l", "--local"), "leave it away, for the scheduler runs the tasks with its own executor"),
    Gone(("-x", "--donot-pickle"), "leave it away, for nothing is pickled any more"),
    Gone(("--continue-on-failures",), "leave it away, for a day that fails never stops the others"),
    Gone(
        ("--disable-retry",),
        "retries belong to the tasks, and a failed gate has none; to stop a day, mark its run as failed in the UI",
    ),
    Gone(
        ("-S", "--subdir"),
        "leave it away, for the DAG is taken as the scheduler knows it; another folder of contracts is set by "
        "LAKEHOUSE_CONTRACTS",
        value=True,
    ),
    Gone(
        ("--pool",),
        "tasks keep the pool of their DAG; to change how many Spark tasks run at a time: "
        "airflow pools set spark N 'Spark jobs at a time'",
        value=True,
    ),
    Gone(
        ("--delay-on-limit",),
        "the scheduler starts the next day as soon as one has ended; limit the days at a time by --max-active-runs N",
        value=True,
    ),
    *(
        Gone((flag,), "name one DAG; for several in the order of their layers: lakehouse backfill DATASET --downstream")
        for flag in ("--treat-dag-as-regex", "--treat-dag-id-as-regex")
    ),
)


def refuse(args: Namespace) -> None:
    """Refuse, in one sentence, a command line that asks for something that is gone."""
    given = vars(args)
    for one in GONE:
        if given.get(one.dest) not in (None, False):
            raise Refused(f"{one.flags[-1]} is gone since Airflow 3; {one.instead}")
