"""A dataset that is watched, on a ledger of the test's own; and somebody to be told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg2
import pytest
from psycopg2 import sql

from lakehouse import naming
from lakehouse.catalog import catalog
from lakehouse.intervals import Coverage, Interval
from lakehouse.ledger.database import engine
from lakehouse.watch import look
from tests.receiver import Receiver
from tests.stack import tables
from tests.stack.harness import forget_connections, free_ports

SINCE = datetime(2026, 2, 1, 12, tzinfo=UTC)
DAY = Interval(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 2, 2, tzinfo=UTC))
LATE = DAY.end + timedelta(hours=1, minutes=30)
CONTRACT = """
dataset: {dataset}
description: A dataset of this test's own.
owner: commerce
start: 2026-01-01
source: {{kind: files, path: "watched/{{interval:%Y-%m-%d}}/"}}
sla: {{ready_within: {ready_within}}}
retention: {{snapshots: 7d}}
maintenance: {{tier: daily}}
"""


@pytest.fixture
def receiver() -> Receiver:
    return Receiver(*free_ports(1))


@pytest.fixture
def database(stack) -> Iterator[str]:
    """A ledger of this test's own, where no other watch looks; its address."""
    name = f"watch_{uuid4().hex[:8]}"
    password = stack.postgres_password.get_secret_value()
    server = {"host": "127.0.0.1", "port": stack.postgres_port, "user": "postgres", "dbname": "postgres"}
    connection = psycopg2.connect(**server, password=password)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE DATABASE {} OWNER lakehouse").format(sql.Identifier(name)))
        yield stack.ledger_url.get_secret_value().rpartition("/")[0] + f"/{name}"
        cursor.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    connection.close()


@pytest.fixture
def nobody() -> str:
    """An address where nobody listens."""
    return f"http://127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture
def dataset(database, receiver, nobody, tmp_path, monkeypatch) -> Iterator[str]:
    """A dataset under contract, watched since SINCE, with an empty table. Its Airflow is down."""
    name = f"bronze.watched_{uuid4().hex[:8]}"
    monkeypatch.setenv("LAKEHOUSE_LEDGER_URL", database)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_ALERT_WEBHOOK", receiver.url)
    monkeypatch.setenv("LAKEHOUSE_AIRFLOW_URL", nobody)
    monkeypatch.delenv("LAKEHOUSE_START", raising=False)
    forget_connections()
    promise(tmp_path, name, "1h")
    tables.make(name)
    assert look(SINCE).problems == ()
    yield name
    catalog().drop_table(name)
    engine().dispose()
    monkeypatch.undo()
    forget_connections()


def promise(folder: Path, dataset: str, ready_within: str) -> None:
    """A contract with this promise."""
    file = folder / "bronze" / f"{naming.short_name(dataset)}.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(CONTRACT.format(dataset=dataset, ready_within=ready_within))


def publish(dataset: str, *intervals: Interval) -> None:
    found = tables.loaded(dataset)
    with found.transaction() as transaction:
        transaction.set_properties({naming.COVERAGE: Coverage.of(intervals).dumps()})
