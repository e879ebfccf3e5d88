"""When files that no version names must not be removed, and a second look at those that would be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from urllib.parse import urlsplit

import requests
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from lakehouse.catalog import catalog
from lakehouse.errors import LakehouseError
from lakehouse.jobs import Maintained
from lakehouse.maintenance.reachable import listed, prefixes, reachable, written
from lakehouse.wording import first_sentence


class NoOrphans(LakehouseError):
    """A file that is to be removed as an orphan is none."""


class PlacesUnknown(LakehouseError):
    """The catalog does not say where a table keeps files, which may be among those that nobody else names."""


def refusal(name: str, found: Table) -> str:
    """Why orphans of this table must not be removed; empty where they may. Reads every manifest."""
    try:
        places = _places()
    except PlacesUnknown as unknown:
        return str(unknown)
    return shared(name, found.location(), places) or mixed(found.location(), reachable(found))


def look_again(name: str, found: Table, orphans: Iterable[str]) -> None:
    """`NoOrphans` where they must not be removed, by another way than the one that found them; or `PlacesUnknown`.

    The plan has looked at it; another table may have come since. And no version may name one of the files.
    """
    paths = set(reachable(found))
    if why := shared(name, found.location(), _places()) or mixed(found.location(), paths):
        raise NoOrphans(f"{name}: files that no version names are not removed: {why}")
    confirm(name, paths, orphans)


def still_old(found: Table, orphans: Iterable[str], older_than: datetime) -> tuple[tuple[str, datetime], ...]:
    """Those that are in the table's folder and were written before that time; with when that was."""
    asked = set(orphans)
    return tuple((path, at) for path, at in written(found.location()) if path in asked and at < older_than)


def removed(found: Table, answer: Maintained) -> Maintained:
    """The answer, by what is gone from the table's folder: Iceberg names each file that it tried to remove."""
    there = set(listed(found.location())) if answer.files else set()
    gone = tuple(path for path in answer.files if path not in there)
    stay = len(answer.files) - len(gone)
    return Maintained(
        counters={"files": len(gone), "failed": stay}, files=gone, failure="Spark's log says why" if stay else ""
    )


def shared(name: str, location: str, others: Mapping[str, Iterable[str]]) -> str:
    """A folder in which another table keeps files holds some that only the other one knows."""
    mine = _place(location)
    for other, places in sorted(others.items()):
        if other != name and any(mine.startswith(one) or one.startswith(mine) for one in map(_place, places)):
            return f"its folder {location} is shared with {other}, whose files it would take for its own"
    return ""


def mixed(location: str, paths: Iterable[str]) -> str:
    """The same file under two spellings, s3 and s3a, would be taken for one that nobody names."""
    (own,) = prefixes([location])
    strange = sorted(prefixes(paths) - {own})
    return f"its folder is {own}, but it has files in {', '.join(strange)}" if strange else ""


def confirm(name: str, paths: Iterable[str], orphans: Iterable[str]) -> None:
    """`NoOrphans` where one of the files is among the paths that versions name, under whichever scheme."""
    named = {_place(path) for path in paths}
    wrong = [path for path in orphans if _place(path) in named]
    if wrong:
        raise NoOrphans(f"{name}: {len(wrong)} files would be removed that its versions name, such as {wrong[0]}")


def _place(path: str) -> str:
    """Bucket and key, whatever the scheme says, with an end that no longer name shares."""
    place = urlsplit(path)
    return f"{place.netloc}{place.path.rstrip('/')}/"


def _places() -> dict[str, set[str]]:
    """Where every table of the catalog keeps files, also those that have no contract; or `PlacesUnknown`."""
    known, found = catalog(), {}
    for namespace in _namespaces(()):
        names: list[Identifier] = []
        with _asked_of(namespace):
            names = known.list_tables(namespace)
        for name in names:
            with _asked_of(name):
                found[".".join(name)] = places_of(known.load_table(name))
    return found


def _namespaces(above: Identifier) -> Iterator[Identifier]:
    """All of them, however deep they lie; the catalog names one level at a time."""
    found: list[Identifier] = []
    with _asked_of(above):
        found = catalog().list_namespaces(above)
    for one in found:
        yield one
        yield from _namespaces(one)


@contextmanager
def _asked_of(name: Identifier) -> Iterator[None]:
    """`PlacesUnknown` where the catalog answers for all others and not for this; what was dropped has no place."""
    try:
        yield
    except (NoSuchNamespaceError, NoSuchTableError):
        pass
    except requests.ConnectionError:
        raise
    except Exception as error:
        what = ".".join(name) or "the catalog"
        raise PlacesUnknown(f"where {what} keeps its files cannot be told: {first_sentence(error)}") from error


def places_of(found: Table) -> set[str]:
    """A table's folder, the folders that its settings send files to, and where its versions' lists have been put.

    A table that was moved has older files where it was.
    """
    set_elsewhere = {value for name, value in found.properties.items() if _names_a_folder(name)}
    return {found.location(), *set_elsewhere, *(one.manifest_list for one in found.metadata.snapshots)}


def _names_a_folder(setting: str) -> bool:
    """Such as write.data.path, write.metadata.path, and those of older versions of Iceberg."""
    return setting.startswith("write.") and setting.endswith(".path")
