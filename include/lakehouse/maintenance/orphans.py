"""When files that no version names must not be removed, and a second look at those that would be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from lakehouse.catalog import catalog
from lakehouse.errors import LakehouseError
from lakehouse.maintenance.reachable import prefixes, reachable


class NoOrphans(LakehouseError):
    """A file that is to be removed as an orphan is none."""


def refusal(name: str, found: Table) -> str:
    """Why orphans of this table must not be removed; empty where they may. Reads every manifest."""
    return shared(name, found.location(), _locations()) or mixed(found.location(), reachable(found))


def look_again(name: str, found: Table, orphans: Iterable[str]) -> None:
    """`NoOrphans` where they must not be removed, by another way than the one that found them.

    The plan has looked at it; another table may have come since. And no version may name one of the files.
    """
    paths = set(reachable(found))
    if why := shared(name, found.location(), _locations()) or mixed(found.location(), paths):
        raise NoOrphans(f"{name}: files that no version names are not removed: {why}")
    confirm(name, paths, orphans)


def shared(name: str, location: str, others: Mapping[str, str]) -> str:
    """A folder within another table's holds files that only the other one knows."""
    mine = _place(location)
    for other, place in sorted(others.items()):
        theirs = _place(place)
        if other != name and (mine.startswith(theirs) or theirs.startswith(mine)):
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


def _locations() -> dict[str, str]:
    """Where every table of the catalog lies, also those that have no contract."""
    known, found = catalog(), {}
    for name in [table for namespace in known.list_namespaces() for table in known.list_tables(namespace)]:
        with suppress(NoSuchTableError):  # one that was dropped meanwhile has no place
            found[".".join(name)] = known.load_table(name).location()
    return found
