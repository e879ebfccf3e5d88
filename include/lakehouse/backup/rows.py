"""The ledger's rows, out to files and back in, through PostgreSQL's COPY."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, func, select, text, update

from lakehouse.backup.model import NoBackup, Rows
from lakehouse.errors import LakehouseError
from lakehouse.ledger.database import batches, engine, inputs, landing_gone, metadata, rollbacks

# Who is at work, and who is alive: not true of a platform that was just restored.
_OF_THE_MOMENT = {"leases", "heartbeats"}
_WITH_ETAGS = (inputs, landing_gone)
_STATES = (
    "SELECT md5(string_agg(concat(batch_id, state, attempt, intended_at), ',' ORDER BY batch_id)) FROM batches",
    "SELECT md5(string_agg(concat(id, state), ',' ORDER BY id)) FROM rollbacks",
)


class LedgerInUse(LakehouseError):
    """The ledger holds something else than the backup."""


def kept() -> list[Table]:
    """The tables that a backup holds, those that others refer to first."""
    return [table for table in metadata.sorted_tables if table.name not in _OF_THE_MOMENT]


def dump(folder: Path) -> tuple[dict[str, Rows], str]:
    """Write every row as of one moment; returns what was written, and which batches were known in which state."""
    folder.mkdir(exist_ok=True)
    with engine().connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        _take_your_time(connection)
        written = {table.name: _out(connection, table, _file(folder, table)) for table in kept()}
        return written, _published(connection)


def published() -> str:
    """Stands for all batches and rollbacks and their states: it changes when one of them does."""
    with engine().connect() as connection:
        return _published(connection)


def cleared() -> tuple[int, datetime | None]:
    """Stands for the landing files that went: it changes when one more is about to."""
    with engine().connect() as connection:
        count, last = connection.execute(select(func.count(), func.max(landing_gone.c.at))).one()
        return count, last


def fill(folder: Path, written: dict[str, Rows], known: str) -> bool:
    """Bring the rows back, all or none; False where they are there already. A ledger with other batches is refused."""
    with engine().begin() as connection:
        _take_your_time(connection)
        if _published(connection) == known and connection.execute(select(func.count()).select_from(batches)).scalar():
            return False
        for table in (batches, rollbacks):
            if connection.execute(select(func.count()).select_from(table)).scalar():
                raise LedgerInUse(
                    f"the ledger's {table.name} are not empty, and not those of the backup: "
                    "restore into a new stack (`lakehouse reset`), or into an empty ledger database."
                )
        connection.execute(text(f"TRUNCATE {', '.join(table.name for table in kept())}"))
        for table in kept():
            if table.name in written:
                _in(connection, table, _file(folder, table))
    return True


def rename(etags: Mapping[str, tuple[str, str]]) -> int:
    """Files that have another ETag though their bytes are the same, by URI with the old and the new one: remember the
    new one, or each would be taken once more as a correction. Returns how many were known."""
    changed = 0
    with engine().begin() as connection:
        for uri, (old, new) in etags.items():
            statements = [update(t).where(t.c.uri == uri, t.c.etag == old).values(etag=new) for t in _WITH_ETAGS]
            changed += max(connection.execute(statement).rowcount for statement in statements)
    return changed


def check(folder: Path, written: dict[str, Rows]) -> None:
    """That the files are those that were written, and hold nothing that this version does not know."""
    known = {table.name: table for table in kept()}
    for name, rows in written.items():
        file = folder / f"{name}.csv"
        if name not in known:
            raise NoBackup(f"{file}: this version's ledger has no such table; restore by the version that wrote it.")
        if not file.exists() or _sha256(file) != rows.sha256:
            raise NoBackup(f"{file} is missing or was changed after the backup: take an earlier backup.")
        if strange := set(_columns(file)) - set(known[name].columns.keys()):
            raise NoBackup(
                f"{file}: the ledger has no column {', '.join(sorted(strange))}; restore by the version that wrote it."
            )


def _file(folder: Path, table: Table) -> Path:
    return folder / f"{table.name}.csv"


def _columns(file: Path) -> list[str]:
    with file.open(newline="") as lines:
        return next(csv.reader(lines))


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _out(connection: Connection, table: Table, file: Path) -> Rows:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    with file.open("wb") as target:
        rows = _copy(connection, f"COPY {table.name} ({names}) TO STDOUT WITH (FORMAT csv, HEADER)", target)
    return Rows(rows=rows, sha256=_sha256(file))


def _in(connection: Connection, table: Table, file: Path) -> None:
    names = ", ".join(f'"{name}"' for name in _columns(file))
    with file.open("rb") as source:
        _copy(connection, f"COPY {table.name} ({names}) FROM STDIN WITH (FORMAT csv, HEADER)", source)
    if table.autoincrement_column is not None:  # the next row's number is above those that came
        number = table.autoincrement_column
        sequence = func.pg_get_serial_sequence(table.name, number.name)
        connection.execute(
            select(func.setval(sequence, select(func.coalesce(func.max(number), 0) + 1).scalar_subquery(), False))
        )


def _take_your_time(connection: Connection) -> None:
    """A ledger of years is one long statement, which others must not be."""
    for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
        connection.execute(text(f"SET LOCAL {limit} = 0"))


def _copy(connection: Connection, statement: str, file: Any) -> int:
    cursor: Any = connection.connection.cursor()
    with cursor:
        cursor.copy_expert(statement, file)
        return int(cursor.rowcount)


def _published(connection: Connection) -> str:
    """By the database itself: a ledger of years has many batches."""
    return "/".join(connection.execute(text(one)).scalar() or "-" for one in _STATES)
