"""What a ledger of an earlier version lacks."""

from __future__ import annotations

from sqlalchemy import Connection, MetaData, text


def add_missing(connection: Connection, wanted: MetaData) -> None:
    """A ledger of an earlier version gains the columns that it lacks, empty in the rows it has, and the indexes."""
    found = connection.execute(
        text("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()")
    )
    known = {tuple(row) for row in found}
    tables = {name for name, _ in known}
    for column in (c for table in wanted.tables.values() if table.name in tables for c in table.columns):
        if (column.table.name, column.name) not in known:
            kind = column.type.compile(connection.dialect)
            connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {kind}"))
    indexes = text("SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()")
    there = set(connection.execute(indexes).scalars())
    for index in (i for table in wanted.tables.values() if table.name in tables for i in table.indexes):
        if index.name not in there:
            index.create(connection)
