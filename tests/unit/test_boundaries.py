"""Who may import whom, who may read the environment, and who may ask for the time."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from lakehouse.settings import ROOT


class Room(NamedTuple):
    """A room may import its own modules, those named in `may`, and libraries that are not named in `never`."""

    folder: str
    may: tuple[str, ...]
    never: tuple[str, ...] = ()


OURS = ("lakehouse", "lakehouse_airflow", "spark_jobs", "lakehouse_plugin", "dags", "tests")
ROOMS = [
    Room(
        "dags", ("lakehouse_airflow", "lakehouse.contracts"), ("pyspark", "pyiceberg", "pandas", "duckdb", "sqlalchemy")
    ),
    Room("plugins", ("lakehouse_airflow", "lakehouse"), ("pyspark",)),
    Room("include/lakehouse", ("lakehouse",), ("airflow", "pyspark")),
    Room(
        "spark_jobs",
        ("spark_jobs", "lakehouse"),
        (
            "airflow",
            "sqlalchemy",
            "psycopg2",
            "lakehouse.ledger.database",
            "lakehouse.ledger.leases",
            "lakehouse.steps",
        ),
    ),
]
# Python's ways to ask for the time, and Spark's; perf_counter, monotonic and sleep tell how long, not when.
CLOCKS = ("now", "utcnow", "today", "current_timestamp", "current_date", "curdate", "localtimestamp", "unix_timestamp")
OF_TIME = ("time", "time_ns", "gmtime", "localtime", "ctime", "asctime", "strftime", "clock_gettime")
CLOCK_IN_SQL = re.compile(
    r"(?i)\b(?:current_timestamp|current_date|localtimestamp|(?:now|curdate|unix_timestamp)\s*\(\s*\))"
)
FILES = [(room, file) for room in ROOMS for file in sorted((ROOT / room.folder).rglob("*.py"))]
JOBS = [file for room, file in FILES if room.folder == "spark_jobs"]


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All of a source's syntax; several tests read the same file."""
    return tuple(ast.walk(ast.parse(source)))


def imports(source: str) -> Iterator[str]:
    """Every module that a source imports, wherever in it; `from a import b` is both a and a.b."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def under(module: str, names: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def forbidden(room: Room, source: str) -> set[str]:
    """What a source in that room imports and may not."""
    found = set(imports(source))
    # `from a import b` names a as well; that is fine where a.b is what is allowed.
    refused = {m for m in found if under(m, room.never) or (under(m, OURS) and not under(m, room.may))}
    return {
        m
        for m in refused
        if under(m, room.never) or not any(o.startswith(f"{m}.") and under(o, room.may) for o in found)
    }


def environment_reads(source: str) -> list[str]:
    """Each place that reads the environment itself; to set a variable for a library is no reading."""
    names = {"environ", "environb", "getenv", "getenvb"}
    tree = nodes(source)
    set_here = {n.value for n in tree if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
    attributes = [n for n in tree if isinstance(n, ast.Attribute) and n.attr in names and n not in set_here]
    through_os = [f"os.{n.attr}" for n in attributes if isinstance(n.value, ast.Name) and n.value.id == "os"]
    return through_os + sorted(m for m in imports(source) if m in {f"os.{name}" for name in names})


def clock_reads(source: str) -> list[str]:
    """Each place that asks for the time: in Python, by a function of Spark's, or in SQL."""
    tree = nodes(source)
    named = [n for n in tree if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "time"]
    texts = [n.value for n in tree if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [
        *(n.attr for n in tree if isinstance(n, ast.Attribute) and n.attr in CLOCKS),
        *(f"time.{n.attr}" for n in named if n.attr in OF_TIME),
        *(m for m in imports(source) if m.rpartition(".")[2] in CLOCKS or m in {f"time.{name}" for name in OF_TIME}),
        *(text for text in texts if CLOCK_IN_SQL.search(text)),
    ]


@pytest.mark.parametrize(("room", "file"), FILES, ids=[str(file.relative_to(ROOT)) for _, file in FILES])
def test_a_file_imports_only_what_its_room_may(room: Room, file: Path):
    assert forbidden(room, file.read_text()) == set()


@pytest.mark.parametrize(("room", "file"), FILES, ids=[str(file.relative_to(ROOT)) for _, file in FILES])
def test_only_settings_reads_the_environment(room: Room, file: Path):
    if file != ROOT / "include/lakehouse/settings.py":
        assert environment_reads(file.read_text()) == []


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("dags", "import pyspark"),
        ("dags", "from lakehouse.catalog import table"),
        ("dags", "def f():\n    import pyiceberg.catalog"),
        ("plugins", "from spark_jobs import clean"),
        ("plugins", "from pyspark.sql import SparkSession"),
        ("include/lakehouse", "from airflow.sdk import DAG"),
        ("include/lakehouse", "import lakehouse_airflow"),
        ("include/lakehouse", "if True:\n    from spark_jobs.clean import clean"),
        ("spark_jobs", "import airflow"),
        ("spark_jobs", "from lakehouse.ledger import database"),
        ("spark_jobs", "from sqlalchemy import text"),
        ("spark_jobs", "from lakehouse_airflow import factory"),
    ],
)
def test_a_forbidden_import_is_found_wherever_it_hides(folder, source):
    assert forbidden(next(room for room in ROOMS if room.folder == folder), source) != set()


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("dags", "from lakehouse.contracts import contracts"),
        ("dags", "from lakehouse import contracts"),
        ("dags", "from airflow.sdk import DAG"),
        ("plugins", "from lakehouse.steps import write"),
        ("include/lakehouse", "import pyiceberg"),
        ("spark_jobs", "from lakehouse.contracts.model import Silver"),
    ],
)
def test_an_allowed_import_is_allowed(folder, source):
    assert forbidden(next(room for room in ROOMS if room.folder == folder), source) == set()


@pytest.mark.parametrize(
    "source", ["import os\nos.environ['A']", "import os\nos.getenv('A')", "from os import environ"]
)
def test_a_read_of_the_environment_is_found(source):
    assert environment_reads(source) != []


@pytest.mark.parametrize("file", JOBS, ids=[str(file.relative_to(ROOT)) for file in JOBS])
def test_a_job_reads_no_clock(file: Path):
    assert clock_reads(file.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import UTC, datetime\ndatetime.now(UTC)",
        "import datetime\ndatetime.datetime.utcnow()",
        "from datetime import date\nrows.withColumn('day', lit(date.today()))",
        "import time\ntime.time()",
        "from time import time_ns",
        "from lakehouse.ledger.database import now",
        "from pyspark.sql import functions as F\nF.now()",
        "from pyspark.sql import functions as F\nF.current_timestamp()",
        "from pyspark.sql.functions import current_date as day",
        "spark.sql(f'SELECT *, CURRENT_TIMESTAMP FROM {table}')",
        "F.expr('coalesce(at, now ())')",
    ],
)
def test_a_read_of_a_clock_is_found(source):
    assert clock_reads(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "import time\nbegun = time.monotonic()\ntime.sleep(1)",
        "from time import perf_counter",
        "now = rows.select('at')\nold.join(now, 'id')",
        "'What counts now (and what does not), as of today.'",
    ],
)
def test_what_tells_no_time_of_day_is_no_clock(source):
    assert clock_reads(source) == []


def test_every_room_has_files():
    assert {room.folder for room, _ in FILES} == {room.folder for room in ROOMS}
