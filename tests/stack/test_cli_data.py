"""The commands that look at data, on the real catalog and ledger."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
import typer
from sqlalchemy import delete
from typer.testing import CliRunner

from lakehouse.batch import TableWrite
from lakehouse.catalog import catalog
from lakehouse.cli import contracts, data
from lakehouse.ledger import batches
from lakehouse.ledger.batches import Batch
from lakehouse.ledger.database import batches as ledger_table
from lakehouse.ledger.database import engine
from lakehouse.naming import quarantine_table

TABLE = "silver.cli_test_prices"
# More than a float holds.
HEAD = 6635589809107500567
WRITES = (
    TableWrite(table=quarantine_table(TABLE), branch="b", base=None, head=HEAD - 1),
    TableWrite(table=TABLE, branch="b", base=1, head=HEAD),
)

app = typer.Typer()
app.command()(data.query)
app.command()(data.batches)
app.add_typer(contracts.contracts, name="contracts")


def answer(*arguments: str) -> str:
    return CliRunner().invoke(app, arguments, catch_exceptions=False).stdout


@pytest.fixture(scope="module")
def prices(stack) -> Iterator[str]:
    """One row: a text with everything that could break a format, and a missing number."""
    rows = pa.table({"name": ['[red]"a",\tb'], "price": pa.array([None], pa.float64())})
    catalog().create_table(TABLE, rows.schema).append(rows)
    yield TABLE
    catalog().drop_table(TABLE)


@pytest.fixture
def batch(stack) -> Iterator[Batch]:
    """A published batch of a dataset that nobody else has."""
    made = Batch(
        batch_id="cli_test-1",
        dataset=TABLE,
        interval_start=datetime(2026, 1, 1, tzinfo=UTC),
        interval_end=datetime(2026, 1, 2, tzinfo=UTC),
        fingerprint="f",
        contract_version="v",
        run="run",
        attempt="run#1",
        writes=WRITES,
        counts={"rows_in": 5, "inserted": 4, "updated": 0, "quarantined": 1},
        measures={"write_s": 12.34, "audit_s": 0.0, "bytes_in": 4096},
    )
    batches.intend(made)
    later = {"publish_s": 0.46, "bytes_out": 2048, "table_files": 7}
    batches.settle(made.batch_id, batches.PUBLISHED, {**made.measures, **later})
    yield made
    with engine().begin() as connection:
        connection.execute(delete(ledger_table).where(ledger_table.c.dataset == TABLE))


def test_query_answers_in_json(prices):
    assert json.loads(answer("query", f"FROM {TABLE}", "--json")) == [{"name": '[red]"a",\tb', "price": None}]


@pytest.mark.parametrize(("options", "between"), [(["--csv"], ","), ([], "\t")])
def test_query_answers_in_lines_that_read_back(prices, options, between):
    lines = list(csv.reader(io.StringIO(answer("query", f"FROM {TABLE}", *options)), delimiter=between))
    assert lines == [["name", "price"], ['[red]"a",\tb', ""]]


def test_batches_are_told_from_the_ledger(batch):
    names, line = csv.reader(io.StringIO(answer("batches", TABLE)), delimiter="\t")
    told = dict(zip(names, line, strict=True))
    assert line[:4] == ["2026-01-01", "cli_test-1", "published", "rows_in=5 inserted=4 quarantined=1"]
    assert sorted(told["seconds"].split()) == ["audit=0.0", "publish=0.5", "write=12.3"]
    assert (told["bytes"], told["snapshot"]) == ("2048", str(HEAD))
    assert datetime.fromisoformat(told["published"]).tzinfo is not None


def test_a_table_whose_contract_is_gone_is_told_and_is_no_error(prices, monkeypatch):
    monkeypatch.setattr("lakehouse.cli.contracts.LAYERS", ("silver",))
    done = CliRunner().invoke(app, ["contracts", "check"])
    assert f"{TABLE}: its contract is gone; the table stays\n" in done.stdout
    assert done.exit_code == 0
