"""Bringing a backup back into an empty platform. It can be cut off at any point and begun again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from pyiceberg.exceptions import NamespaceAlreadyExistsError

from lakehouse.backup import rows
from lakehouse.backup.model import Backup, NoBackup, Object, read_objects
from lakehouse.backup.objects import Tell, copy_in, present
from lakehouse.backup.taken import whole
from lakehouse.catalog import catalog, table
from lakehouse.errors import LakehouseError


class TableInUse(LakehouseError):
    """The catalog has a table of that name with other content."""


def restore(folder: Path, place: Path, backup: Backup, tell: Tell) -> None:
    """Everything is checked before anything is changed, but for objects, which only come back where they are missing.

    The ledger comes before the tables: a batch that it knows is not taken again, whereas a table whose batches it
    does not know would get them twice.
    """
    rows.check(place / "ledger", backup.ledger)
    _refuse_others(backup)
    if backup.objects is not None:
        brought = copy_in(read_objects(place), folder, tell)
        tell(f"{brought:,} of {backup.objects:,} objects brought back, the others were there")
    now = list(present())
    there = {one.uri for one in now}
    try:
        files = sum(1 for _ in set(whole(backup.tables, there)))
    except FileNotFoundError as error:
        raise NoBackup(f"{error}: bring the bucket back first, as it was at {backup.at} or later.") from error
    tell(f"{files:,} files named by the tables' versions, all there")
    filled = rows.fill(place / "ledger", backup.ledger, backup.published)
    count = sum(one.rows for one in backup.ledger.values())
    tell(f"{count:,} rows of the ledger{'' if filled else ' were there already'}")
    if backup.objects is not None:
        rows.rename(_other_etags(folder, read_objects(place), now))
    _register(backup)
    tell(f"{len(backup.tables)} tables")


def _other_etags(folder: Path, before: Iterable[Object], now: Iterable[Object]) -> dict[str, tuple[str, str]]:
    """Objects that came in several pieces, and came back in one: the store makes its ETag of that, too.

    Only those whose content is the backup's: another file of the same name is a correction, and must stay one.
    """
    known = {one.uri: one for one in now}
    pairs = ((one, known[one.uri]) for one in before if one.uri in known)
    return {
        old.uri: (old.etag, new.etag)
        for old, new in pairs
        if old.etag != new.etag and old.bytes == new.bytes and new.etag == _md5(old.within(folder))
    }


def _md5(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _refuse_others(backup: Backup) -> None:
    for name, location in backup.tables.items():
        found = table(name)
        if found is not None and found.metadata_location != location:
            raise TableInUse(
                f"{name} is in the catalog, as another version than the backup's: "
                "restore into a new stack (`lakehouse reset`), or drop the table without its files."
            )


def _register(backup: Backup) -> None:
    for name, given in backup.namespaces.items():
        try:
            catalog().create_namespace(name, given)
        except NamespaceAlreadyExistsError:
            catalog().update_namespace_properties(name, updates=given)
    for name, location in backup.tables.items():
        if table(name) is None:
            catalog().register_table(name, location)
