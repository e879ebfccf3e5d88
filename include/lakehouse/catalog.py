"""Access to the Iceberg catalog through PyIceberg: no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from functools import lru_cache
from typing import Any

import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchTableError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from requests.adapters import HTTPAdapter

from lakehouse.errors import LakehouseError
from lakehouse.identities import acting, identity
from lakehouse.intervals import Coverage
from lakehouse.naming import ABSORBED, CATALOG, COVERAGE, ROWS_FROM
from lakehouse.roles import Role
from lakehouse.settings import Settings, settings

MAIN = "main"
TIMEOUT = (5.0, 60.0)
# A commit that ends so may have succeeded.
OUTCOME_UNKNOWN = (
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
    RESTError,
    requests.RequestException,
)


class _Impatient(HTTPAdapter):
    """PyIceberg's client waits for ever; this one gives up."""

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        kwargs["timeout"] = kwargs.get("timeout") or TIMEOUT
        return super().send(*args, **kwargs)


class _Catalog(RestCatalog):
    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        session.mount("http://", _Impatient())
        session.mount("https://", _Impatient())
        return session

    def load_table(self, identifier: str | Identifier) -> Table:
        with _allowed(self.uri):
            found: Table = super().load_table(identifier)
            return found

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        with _allowed(self.uri):
            done: CommitTableResponse = super().commit_table(table, requirements, updates)
            return done


class NotAllowed(LakehouseError, PermissionError):
    """The catalog knows who asks, and says no."""


@contextmanager
def _allowed(uri: str) -> Iterator[None]:
    try:
        yield
    except ForbiddenError as error:
        raise NotAllowed(f"the catalog at {uri} refuses: {str(error).partition(': ')[2] or error}") from None


def properties(given: Settings, role: Role) -> dict[str, str]:
    """PyIceberg's properties for the catalog and the store, as this role."""
    own = identity(given, role)
    optional = {
        "token": own.token,
        "credential": given.catalog_credential.get_secret_value(),
        "oauth2-server-uri": given.catalog_oauth2_uri,
        "scope": given.catalog_scope,
        "s3.access-key-id": own.access_key,
        "s3.secret-access-key": own.secret_key,
    }
    # Who has a key of its own knows where the store is: the catalog would tell it the address for others.
    knows = {"header.X-Iceberg-Access-Delegation": ""} if own.access_key else {}
    return {
        "uri": given.catalog_uri,
        "warehouse": given.catalog_warehouse,
        "s3.endpoint": given.s3_endpoint,
        "s3.region": given.s3_region,
        "s3.connect-timeout": "5",
        "s3.request-timeout": "60",
        **{name: value for name, value in optional.items() if value},
        **knows,
    }


class CatalogUnreachable(LakehouseError, ConnectionError):
    """The catalog does not answer."""


def catalog() -> RestCatalog:
    """The one catalog that this process has in the role it acts in."""
    return catalog_of(acting())


@lru_cache(maxsize=len(Role))
def catalog_of(role: Role) -> RestCatalog:
    """The one that it has in that role."""
    return connected(role)


def connected(role: Role, **more: str) -> RestCatalog:
    """A client of the catalog, with more of PyIceberg's properties."""
    given = settings()
    try:
        return _Catalog(CATALOG, **properties(given, role), **more)
    except requests.ConnectionError as error:
        raise CatalogUnreachable(f"the catalog at {given.catalog_uri} does not answer") from error


def table(name: str) -> Table | None:
    """A table as it is now, or None."""
    try:
        found: Table = catalog().load_table(name)
    except NoSuchTableError:
        return None
    except requests.ConnectionError as error:
        raise CatalogUnreachable(f"the catalog at {settings().catalog_uri} does not answer") from error
    return found


def ref_snapshot(found: Table | None, ref: str = MAIN) -> int | None:
    """The snapshot id that a branch or tag points to."""
    target = found.metadata.refs.get(ref) if found else None
    return target.snapshot_id if target else None


def history(found: Table, snapshot_id: int | None) -> list[Snapshot]:
    """The snapshot and its known ancestors, newest first."""
    newest = found.snapshot_by_id(snapshot_id) if snapshot_id else None
    return list(ancestors_of(newest, found.metadata)) if newest else []


def coverage(found: Table | None) -> Coverage:
    """The intervals that a table's main holds."""
    return Coverage.loads(found.properties.get(COVERAGE) if found else None)


def rows_from(found: Table | None) -> date | None:
    """The day before which a table's rows were let go, if they were: what is there of earlier days is not all."""
    told = found.properties.get(ROWS_FROM) if found else None
    return date.fromisoformat(told) if told else None


def absorbed(found: Table | None) -> dict[str, Any]:
    """The contract and the versions of inputs that a gold table was last built from; empty where it never was."""
    made: dict[str, Any] = json.loads(found.properties.get(ABSORBED, "{}")) if found else {}
    return made
