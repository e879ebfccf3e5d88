"""What tables hold, for those who ask again and again: as little as the catalog can answer, and one kind of failure."""

from __future__ import annotations

from functools import lru_cache

import requests
from pyiceberg.catalog.rest import SNAPSHOT_LOADING_MODE, RestCatalog
from pyiceberg.exceptions import NoSuchTableError, RESTError

from lakehouse.catalog import CatalogUnreachable, NotAllowed, connected, coverage
from lakehouse.identities import acting
from lakehouse.intervals import Coverage
from lakehouse.roles import Role
from lakehouse.settings import settings


class CatalogSilent(CatalogUnreachable):
    """The catalog does not answer at all."""


def held(dataset: str) -> Coverage:
    """The intervals that a table's main holds; none where there is no table.

    `CatalogUnreachable` whenever the catalog gave no answer, or one that is none: asked again, it may.
    """
    try:
        return coverage(_catalog(acting()).load_table(dataset))
    except CatalogUnreachable as error:  # before there was a client
        raise CatalogSilent(str(error)) from error
    except NoSuchTableError:
        return Coverage()
    except requests.RequestException as error:
        raise CatalogSilent(f"the catalog at {settings().catalog_uri} does not answer") from error
    except (NotAllowed, RESTError, ValueError) as error:
        told = "".join(str(error).strip().splitlines()[:1])
        raise CatalogUnreachable(f"the catalog at {settings().catalog_uri} cannot tell of {dataset}: {told}") from error


@lru_cache(maxsize=len(Role))
def _catalog(role: Role) -> RestCatalog:
    """A client of its own: it asks for the versions that a table refers to, not for its whole history."""
    return connected(role, **{SNAPSHOT_LOADING_MODE: "refs"})
