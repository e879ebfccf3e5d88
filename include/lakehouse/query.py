"""Ad-hoc SQL over the lake's tables: DuckDB reads, PyIceberg decides which snapshot of each table it sees.

DuckDB is given nothing but a view of each table that the statement names, fixed to one snapshot, and may reach nothing
but these tables' files. Left to itself it could read a branch's newer snapshot, local files, or any address.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

import boto3
import duckdb
from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError, RESTError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from lakehouse.catalog import CatalogUnreachable, NotAllowed, catalog, ref_snapshot, table
from lakehouse.errors import LakehouseError, suggest
from lakehouse.naming import CATALOG
from lakehouse.settings import settings
from lakehouse.versions import NoVersion, is_tag, main_at, moment, named, nowhere

log = logging.getLogger(__name__)

EXTENSIONS = ("httpfs", "avro", "iceberg")
# These make rows of their arguments alone; all others could read files, addresses or DuckDB's own state.
FUNCTIONS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"})
_EXPLAIN = re.compile(r"\s*explain(\s+analyze|\s*\(\s*(analyze|format)[^)]*\))?\s", re.IGNORECASE)
_TABLE = re.compile(rf"({CATALOG}\.)?\w+\.\w+")
Rows = tuple[list[str], list[tuple[Any, ...]]]


class QueryError(LakehouseError):
    """The query cannot be answered; the message says why in one sentence."""


@dataclass(frozen=True)
class Version:
    """A table as the query sees it. Without a snapshot it is empty."""

    name: str
    table: Table
    snapshot: int | None


def run_sql(sql: str, at: str | None = None) -> Rows:
    """The columns and rows of one read-only statement.

    Each table is read at main's snapshot; with `at` (a branch or tag, a snapshot id, an ISO time) at that version.
    """
    try:
        tree = _tree(sql)
        if shown := next((node for node in _nodes(tree, "SHOW_REF") if node["query"] is None), None):
            return _listing(shown)
        versions = _versions({name: _table(name) for name in sorted(_table_names(tree))}, at)
    except RESTError as error:
        raise QueryError(f"the catalog at {settings().catalog_uri} refused: {_one_line(error)}") from None
    except NotAllowed as error:
        raise QueryError(f"{error}; `lakehouse query --as transform` reads every layer") from None
    except (CatalogUnreachable, NoVersion) as error:
        raise QueryError(str(error)) from None
    return run_on(versions, sql)


def run_on(versions: list[Version], sql: str) -> Rows:
    """The columns and rows of a statement over these versions alone, each under the name it is given."""
    with duckdb.connect(config=_CONFIG) as connection:
        try:
            _set_up(connection, versions)
            result = connection.execute(sql)
            return [column[0] for column in result.description or ()], result.fetchall()
        except duckdb.IOException as error:
            raise QueryError(f"the object store at {settings().s3_endpoint} failed: {_one_line(error)}") from None
        except duckdb.Error as error:
            raise QueryError(_one_line(error)) from None


# --- What the statement asks for ---


def _tree(sql: str) -> Any:
    """The statement as DuckDB parses it; refused unless it is one that only reads."""
    explained = _EXPLAIN.match(sql)
    with duckdb.connect() as parser:
        statement = sql[explained.end() :] if explained else sql
        (text,) = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchone() or ("{}",)
    parsed = json.loads(text)
    if parsed.get("error_type") == "parser":
        raise QueryError(f"{parsed['error_message'].strip()} (position {parsed.get('position', '?')})")
    if parsed.get("error") or len(parsed["statements"]) != 1:
        raise QueryError("only one statement that reads is allowed: SELECT, WITH, DESCRIBE, SHOW or EXPLAIN")
    return parsed["statements"][0]


def _nodes(tree: Any, kind: str) -> Iterator[Any]:
    """Every node of a kind, however deep."""
    if isinstance(tree, dict):
        if tree.get("type") == kind:
            yield tree
        for child in tree.values():
            yield from _nodes(child, kind)
    elif isinstance(tree, list):
        for child in tree:
            yield from _nodes(child, kind)


def _aliases(tree: Any) -> Iterator[str]:
    """The names that WITH gives to parts of the statement."""
    if isinstance(tree, dict):
        for entry in (tree.get("cte_map") or {}).get("map", []):
            yield entry["key"].lower()
        if tree.get("type") == "RECURSIVE_CTE_NODE":
            yield str(tree.get("cte_name", "")).lower()
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _aliases(child)


def _table_names(tree: Any) -> set[str]:
    """The lake's tables that the statement names; refused if it reads from anything else."""
    for node in _nodes(tree, "TABLE_FUNCTION"):
        name = node["function"].get("function_name", "")
        if name.lower() not in FUNCTIONS:
            raise QueryError(f"{name}() cannot be used here; a query reads the lake's tables and nothing else")
    aliases, names = set(_aliases(tree)), set()
    for node in _nodes(tree, "BASE_TABLE"):
        parts = [part for part in (node["catalog_name"], node["schema_name"], node["table_name"]) if part]
        written = ".".join(parts).lower()
        if node["at_clause"]:
            raise QueryError(f"{written}: AT is not understood here; give the version with --at")
        if _TABLE.fullmatch(written):
            names.add(written.removeprefix(f"{CATALOG}."))
        elif written not in aliases:
            raise QueryError(f"no table '{written}'; write its layer and name, such as gold.daily_sales")
    return names


def _listing(shown: Any) -> Rows:
    """The answer to SHOW TABLES, from the catalog itself."""
    wanted = shown["schema_name"] or None
    if shown["show_type"] != "SHOW_FROM" and shown["table_name"] not in ('"tables"', "__show_tables_expanded"):
        raise QueryError("only SHOW TABLES and SHOW TABLES FROM <layer> are answered here")
    found = [n for n in catalog().list_namespaces() if wanted in (None, ".".join(n))]
    return ["table"], [(".".join(name),) for namespace in sorted(found) for name in _shown(namespace)]


def _shown(namespace: Identifier) -> list[Identifier]:
    """The tables of a namespace that whoever asks may see."""
    try:
        return sorted(catalog().list_tables(namespace))
    except ForbiddenError:
        return []


# --- Which version of each table it sees ---


def _table(name: str) -> Table:
    found = table(name)
    if found is None:
        namespace = name.rpartition(".")[0]
        try:
            beside = [".".join(one) for one in catalog().list_tables(namespace)]
        except (NoSuchNamespaceError, ForbiddenError):
            beside = []
        raise QueryError(f"no table '{name}'{suggest(name, beside)}")
    return found


def _versions(tables: dict[str, Table], at: str | None) -> list[Version]:
    """Each table at main, or at the version asked for; `QueryError` when that is nowhere to be found."""
    if at is None:
        return [Version(name, found, ref_snapshot(found)) for name, found in tables.items()]
    found_as = {name: named(found, at) for name, found in tables.items()}
    when = moment(at) if not any(found_as.values()) else None
    if when:
        return [Version(name, found, main_at(name, found, when)) for name, found in tables.items()]
    if not any(found_as.values()):
        raise NoVersion(nowhere(tables, at))
    without = [name for name, snapshot in found_as.items() if snapshot is None]
    if without and any(is_tag(found, at) for found in tables.values()):
        raise NoVersion(f"{without[0]} has no '{at}', which is pinned in other tables: pin it too, or ask without it")
    for name in without:
        log.warning("%s has no '%s'; it is read at main", name, at)
    return [Version(name, found, found_as[name] or ref_snapshot(found)) for name, found in tables.items()]


# --- The connection that answers ---

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_persistent_secrets": False,
    # DuckDB 1.5.5 takes bytes of one deletion vector for those of the next in the same file: it would show deleted rows
    # and hide others. A connection answers one statement, so that nothing in it is read twice anyway.
    "enable_external_file_cache": False,
    # Nothing is written, not even what does not fit into memory.
    "temp_directory": "",
}


def _set_up(connection: duckdb.DuckDBPyConnection, versions: list[Version]) -> None:
    """The views, then no way out: no files but the tables', and no setting that could change it."""
    for name in EXTENSIONS:
        path = files(f"duckdb_extension_{name}") / f"extensions/v{duckdb.__version__}/{name}.duckdb_extension"
        connection.execute(f"LOAD {_literal(str(path))}")
    connection.execute(f"SET TimeZone = 'UTC'; ATTACH ':memory:' AS {CATALOG}; USE {CATALOG}")
    for number, version in enumerate(versions):
        _add_secret(connection, f"store_{number}", version.table)
        _add_view(connection, version)
    places = ", ".join(_literal(place) for version in versions for place in _places(version.table))
    connection.execute(f"SET allowed_directories = [{places}]")
    connection.execute("SET enable_external_access = false; SET lock_configuration = true")


def _places(found: Table) -> Iterator[str]:
    """The folders in which a table's files are."""
    paths = (found.location(), found.properties.get("write.data.path"), found.metadata_location.rpartition("/")[0])
    yield from {f"{path.rstrip('/')}/" for path in paths if path}


def _add_view(connection: duckdb.DuckDBPyConnection, version: Version) -> None:
    schema, _, short = version.name.rpartition(".")
    name = f"{identifier(schema)}.{identifier(short)}"
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {identifier(schema)}")
    if version.snapshot is None:
        connection.register("nothing", version.table.schema().as_arrow().empty_table())
        connection.execute(f"CREATE TABLE {name} AS FROM nothing")
        connection.unregister("nothing")
    else:
        place = _literal(version.table.metadata_location)
        scan = f"iceberg_scan({place}, snapshot_from_id = {int(version.snapshot)}::UBIGINT)"
        connection.execute(f"CREATE VIEW {name} AS FROM {scan}")


def _add_secret(connection: duckdb.DuckDBPyConnection, name: str, found: Table) -> None:
    """Access to one table's files, with the keys that the catalog gave for it, else ours, else the machine's."""
    given = found.io.properties
    key, secret, token = (given.get(f"s3.{part}") for part in ("access-key-id", "secret-access-key", "session-token"))
    if not key and (machine := boto3.Session().get_credentials()):
        key, secret, token = machine.get_frozen_credentials()
    scheme, _, host = str(given.get("s3.endpoint") or "").rpartition("://")
    options = {
        "KEY_ID": key,
        "SECRET": secret,
        "SESSION_TOKEN": token,
        "REGION": given.get("s3.region"),
        "ENDPOINT": host,
        "URL_STYLE": "path" if settings().s3_path_style else "vhost",
    }
    texts = "".join(f", {option} {_literal(str(value))}" for option, value in options.items() if value)
    scope = ", ".join(_literal(place) for place in _places(found))
    ssl = "false" if scheme == "http" else "true"
    connection.execute(f"CREATE SECRET {name} (TYPE s3, SCOPE [{scope}], USE_SSL {ssl}{texts})")


def _quoted(mark: str, text: str) -> str:
    return mark + text.replace(mark, mark * 2) + mark


_literal, identifier = partial(_quoted, "'"), partial(_quoted, '"')


def _one_line(error: Exception) -> str:
    """An error's first paragraph as one line, without any secret."""
    text = " ".join(str(error).split("\n\n", 1)[0].split())
    for secret in settings().secrets().values():
        text = text.replace(secret, "***")
    return text
