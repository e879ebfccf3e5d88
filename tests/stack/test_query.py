"""Ad-hoc SQL on the real catalog: which version is seen, and that nothing else can be read or written."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSnapshotRefUpdate

from lakehouse.catalog import MAIN, catalog, ref_snapshot, table
from lakehouse.publish import TableWrite, publish
from lakehouse.query import QueryError, run_sql
from lakehouse.settings import ROOT
from tests.stack.tables import drop_namespace

NAMESPACE = "query_test"
ORDERS, EMPTY = f"{NAMESPACE}.orders", f"{NAMESPACE}.empty"
SCHEMA = pa.schema(
    [("order_id", pa.int64()), ("amount", pa.decimal128(12, 2)), ("ordered_at", pa.timestamp("us", "UTC"))]
)


def rows(*ids: int) -> pa.Table:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    return pa.Table.from_pylist(
        [{"order_id": i, "amount": Decimal(10 * i), "ordered_at": noon} for i in ids], schema=SCHEMA
    )


@pytest.fixture(scope="module")
def orders(stack) -> Iterator[Table]:
    """Orders 1 and 2 on main, tagged `first`; then 3 published; then 4 on an audit branch."""
    drop_namespace(NAMESPACE)
    catalog().create_namespace(NAMESPACE)
    catalog().create_table(EMPTY, SCHEMA)
    made = catalog().create_table(ORDERS, SCHEMA)
    made.append(rows(1, 2))
    first = ref_snapshot(made)
    made.manage_snapshots().create_tag(first, "first").create_branch(first, "audit_third").commit()
    made.append(rows(3), branch="audit_third")
    publish(TableWrite(table=ORDERS, branch="audit_third", base=first, head=ref_snapshot(table(ORDERS), "audit_third")))
    made.refresh().manage_snapshots().create_branch(ref_snapshot(made), "audit_fourth").commit()
    made.append(rows(4), branch="audit_fourth")
    yield made.refresh()
    drop_namespace(NAMESPACE)


def ids(at: str | None = None, source: str = ORDERS) -> list[int]:
    return [row[0] for row in run_sql(f"SELECT order_id FROM {source} ORDER BY ALL", at)[1]]


def moment(milliseconds: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)).isoformat()


@pytest.mark.parametrize(("many", "few"), [(3_000, 110), (3_000, 500), (20_000, 110), (300, 110)])
def test_rows_that_deletion_vectors_of_one_file_remove_are_not_there_and_all_others_are(spark, many, few):
    name = f"gold.query_test_{many}_{few}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.gold")
    properties = "'format-version' = '3', 'write.delete.mode' = 'merge-on-read'"
    spark.sql(f"CREATE OR REPLACE TABLE lake.{name} (id BIGINT) USING iceberg TBLPROPERTIES ({properties})")
    try:
        for first, count in ((0, many), (1_000_000, few)):
            spark.sql(f"INSERT INTO lake.{name} SELECT id FROM range({first}, {first + count}, 1, 1)")
        spark.sql(f"DELETE FROM lake.{name} WHERE id % 4 = 1 OR id % 7 = 3")
        vectors = spark.sql(f"SELECT DISTINCT file_path FROM lake.{name}.files WHERE content = 1").collect()
        assert len(vectors) == 1, "both vectors are in one file"
        left = [i for i in (*range(many), *range(1_000_000, 1_000_000 + few)) if i % 4 != 1 and i % 7 != 3]
        assert [row[0] for row in run_sql(f"SELECT id FROM {name} ORDER BY 1")[1]] == left
    finally:
        spark.sql(f"DROP TABLE lake.{name} PURGE")


def test_a_plain_select_never_sees_an_audit_branch(orders):
    assert max(orders.snapshots(), key=lambda s: s.timestamp_ms).snapshot_id == ref_snapshot(orders, "audit_fourth")
    assert ids() == [1, 2, 3]


def test_a_table_that_only_has_an_audit_branch_is_empty(orders):
    made = catalog().create_table(f"{NAMESPACE}.unpublished", SCHEMA)
    made.append(rows(1))
    made.manage_snapshots().create_branch(ref_snapshot(made), "audit_first").commit()
    catalog().commit_table(made, (), (RemoveSnapshotRefUpdate(**{"ref-name": MAIN}),))
    assert ref_snapshot(made.refresh()) is None
    assert ids(source=f"{NAMESPACE}.unpublished") == []
    assert ids("audit_first", source=f"{NAMESPACE}.unpublished") == [1]


def test_a_table_without_snapshot_is_empty_and_has_its_columns(orders):
    assert run_sql(f"SELECT * FROM {EMPTY}") == (["order_id", "amount", "ordered_at"], [])


def test_a_branch_is_seen_when_it_is_asked_for(orders):
    assert ids("audit_fourth") == [1, 2, 3, 4]


def test_a_tag_is_seen_when_it_is_asked_for(orders):
    assert ids("first") == [1, 2]


def test_a_snapshot_is_seen_when_it_is_asked_for(orders):
    assert ids(str(ref_snapshot(orders, "first"))) == [1, 2]


def test_a_time_shows_what_main_was_then_not_what_was_written_by_then(orders):
    first, third = orders.history()
    written = orders.snapshot_by_id(third.snapshot_id)
    assert written.timestamp_ms < third.timestamp_ms, "written to its branch before it was published"
    assert ids(moment(third.timestamp_ms - 1)) == [1, 2]
    assert ids(moment(third.timestamp_ms)) == [1, 2, 3]
    assert ids(moment(first.timestamp_ms)) == [1, 2]


def test_a_time_without_zone_is_utc(orders):
    assert ids("2999-01-01") == [1, 2, 3]


@pytest.mark.parametrize(
    ("at", "sentence"),
    [
        ("audit_forth", "no branch, tag or snapshot 'audit_forth', and it is no ISO time; did you mean 'audit_fourth'"),
        ("42", "no branch, tag or snapshot '42'"),
        ("2001-01-01", "has no version of 2001-01-01T00:00:00+00:00; the oldest that is kept is of"),
    ],
)
def test_a_version_that_no_table_has_is_told_in_a_sentence(orders, at, sentence):
    with pytest.raises(QueryError, match=re.escape(sentence)):
        ids(at)


BOTH = f"SELECT count(o.order_id), count(e.order_id) FROM {ORDERS} o, {EMPTY} e"


def test_a_branch_applies_to_the_tables_that_have_it_and_the_others_are_named(orders, caplog):
    assert run_sql(BOTH, "audit_fourth")[1] == [(0, 0)]
    assert f"{EMPTY} has no 'audit_fourth'; it is read at main" in caplog.text


def test_a_pinned_version_is_never_mixed_with_main(orders):
    with pytest.raises(QueryError, match=f"{re.escape(EMPTY)} has no 'first', which is pinned in other tables"):
        run_sql(BOTH, "first")


@pytest.mark.parametrize(
    "sql",
    [
        f"WITH o AS (FROM {ORDERS}) SELECT count(*) FROM o",
        f"SELECT count(*) FROM lake.{ORDERS}",
        f"SELECT (SELECT count(*) FROM {ORDERS.upper()})",
        f"SELECT count(*) FROM unnest([1]) WHERE EXISTS (FROM {ORDERS}) UNION ALL SELECT 2 ORDER BY 1 DESC LIMIT 0",
        f"DESCRIBE {ORDERS}",
        f"SUMMARIZE {ORDERS}",
        f"EXPLAIN SELECT * FROM {ORDERS}",
        f"EXPLAIN ANALYZE SELECT * FROM {ORDERS}",
    ],
)
def test_what_only_reads_is_answered(orders, sql):
    columns, _ = run_sql(sql)
    assert columns


def test_values_keep_their_types(orders):
    (row,) = run_sql(f"SELECT amount, ordered_at FROM {ORDERS} WHERE order_id = 2")[1]
    assert str(row[0]) == "20.00"
    assert row[1] == datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_days_begin_at_midnight_utc_whatever_the_machines_zone(orders):
    assert run_sql("SELECT current_setting('TimeZone')")[1] == [("UTC",)]


def test_show_tables_lists_the_lakes_tables(orders):
    assert (ORDERS,) in run_sql("SHOW TABLES")[1]
    assert set(run_sql(f"SHOW TABLES FROM {NAMESPACE}")[1]) >= {(EMPTY,), (ORDERS,)}


@pytest.mark.parametrize(
    "sql",
    [
        f"INSERT INTO {ORDERS} VALUES (9, 9, now())",
        f"DELETE FROM {ORDERS}",
        f"UPDATE {ORDERS} SET amount = 0",
        f"DROP TABLE {ORDERS}",
        f"EXPLAIN ANALYZE DELETE FROM {ORDERS}",
        f"CREATE TABLE x AS FROM {ORDERS}",
        f"COPY (FROM {ORDERS}) TO '/tmp/stolen.csv'",
        f"COPY (FROM {ORDERS}) TO 's3://lake/{NAMESPACE}/orders/stolen.csv'",
        "SELECT 1; DROP SCHEMA gold",
        "ATTACH '/tmp/other.db'",
        "SET lock_configuration = false",
        "PRAGMA version",
        "CALL pragma_version()",
        "",
    ],
)
def test_a_statement_that_could_write_is_refused(orders, sql):
    with pytest.raises(QueryError, match="only one statement that reads is allowed"):
        run_sql(sql)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT * FROM '{ROOT}/pyproject.toml'",
        f"SELECT * FROM read_text('{ROOT}/pyproject.toml')",
        f"WITH x AS (FROM read_csv('{ROOT}/pyproject.toml')) FROM x",
        "SELECT (SELECT count(*) FROM glob('/**'))",
        "FROM read_text('http://localhost/')",
        "FROM query('SELECT 1')",
        "FROM duckdb_secrets()",
        "FROM iceberg_scan('s3://lake/x')",
    ],
)
def test_anything_but_the_lakes_tables_cannot_be_read(orders, sql):
    with pytest.raises(QueryError, match=r"cannot be used here|no table"):
        run_sql(sql)


@pytest.mark.parametrize("function", ["read_text", "read_csv", "glob"])
def test_duckdb_itself_would_not_read_local_files(orders, function, monkeypatch):
    monkeypatch.setattr("lakehouse.query.FUNCTIONS", frozenset({function}))
    with pytest.raises(QueryError, match="disabled by configuration"):
        run_sql(f"FROM {ORDERS}, {function}('{ROOT}/pyproject.toml')")


def test_duckdb_itself_would_not_look_for_variables_of_this_program(orders):
    found_nowhere = rows(1)
    assert found_nowhere.num_rows == 1
    with pytest.raises(QueryError, match="found_nowhere does not exist"):
        run_sql("SELECT * FROM (WITH found_nowhere AS (SELECT 1) SELECT 1), found_nowhere")


def test_a_wrong_column_is_told_in_one_line(orders):
    with pytest.raises(QueryError, match=r'^Binder Error: .*"amout".*"amount"[^\n]*$'):
        run_sql(f"SELECT amout FROM {ORDERS}")


def test_a_wrong_table_is_told_with_the_right_one(orders):
    with pytest.raises(QueryError, match=f"no table '{NAMESPACE}.order'; did you mean '{ORDERS}'?"):
        run_sql(f"SELECT * FROM {NAMESPACE}.order")


def test_no_secret_is_in_an_error(orders, stack):
    secret = next(iter(stack.secrets().values()))
    with pytest.raises(QueryError) as caught:
        run_sql(f'SELECT "{secret}" FROM {ORDERS}')
    assert secret not in str(caught.value)
    assert "***" in str(caught.value)
