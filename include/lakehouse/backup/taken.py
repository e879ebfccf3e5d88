"""Taking a backup beside a running platform: a cut between two publishes, and a check that it is whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from botocore.exceptions import ClientError
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import StaticTable

from lakehouse.backup import rows
from lakehouse.backup.model import DESCRIPTION, Backup, Object, write_objects
from lakehouse.backup.objects import Tell, copy_out, present
from lakehouse.catalog import catalog, properties
from lakehouse.errors import LakehouseError
from lakehouse.identities import acting
from lakehouse.ledger.database import now
from lakehouse.maintenance.reachable import reachable
from lakehouse.naming import JOBS, LAYERS
from lakehouse.provenance import code_version
from lakehouse.settings import settings
from lakehouse.store import StoreUnreachable

TRIES = 10
_GONE = ("404", "NoSuchKey", "412", "PreconditionFailed")


class NeverStill(LakehouseError):
    """Something changed each time while it was looked at."""


class _Changed(Exception):
    """What was read does not belong together."""


def take(folder: Path, *, objects: bool, tell: Tell) -> tuple[Path, Backup]:
    """One more backup in the folder; returns where it is and what it holds.

    Ledger and catalog cannot be read at one moment. The ledger is read first, the catalog after it, and the ledger
    once more: if no batch changed its state in between, they belong together. A publish that was half done then is
    what it would be after a crash, and its next try settles it. The store is listed at a moment at which no landing
    file goes: each is noted before.
    """
    at = now().astimezone(UTC)
    place = folder / at.strftime("%Y-%m-%dT%H%M%SZ")
    begun = folder / f".{place.name}"
    begun.mkdir(mode=0o700, parents=True)
    try:
        made = _cut(folder, begun, at, objects=objects, tell=tell)
        (begun / DESCRIPTION).write_text(made.model_dump_json(indent=2) + "\n")
        begun.rename(place)
    finally:
        shutil.rmtree(begun, ignore_errors=True)
    return place, made


def _cut(folder: Path, begun: Path, at: datetime, *, objects: bool, tell: Tell) -> Backup:
    for _ in range(TRIES):
        try:
            return _look(folder, begun, at, objects=objects, tell=tell)
        except _Changed as change:
            tell(f"{change}; looking again")
        except (FileNotFoundError, ClientError) as error:
            if isinstance(error, ClientError) and error.response["Error"]["Code"] not in _GONE:
                raise StoreUnreachable(f"the object store at {settings().s3_endpoint} refuses: {error}") from error
            tell(f"maintenance took a file away meanwhile ({error}); looking again")
    raise NeverStill(f"in {TRIES} tries something was published, dropped or removed each time: try at a quieter hour.")


def _look(folder: Path, begun: Path, at: datetime, *, objects: bool, tell: Tell) -> Backup:
    """One cut, if nothing happens meanwhile."""
    cleared = rows.cleared()
    ledger, known = rows.dump(begun / "ledger")
    try:
        tables = _tables()
    except NoSuchTableError as error:
        raise _Changed("a table was dropped while they were listed") from error
    if rows.published() != known:
        raise _Changed("a batch was published meanwhile")
    tell(f"{len(tables)} tables")
    listed = list(present())
    if rows.cleared() != cleared:  # the ledger would not know of a file that is not there any more
        raise _Changed("landing files went meanwhile")
    files, copied = _held(tables, listed, folder, begun, objects=objects, tell=tell)
    return Backup(
        at=at.isoformat(timespec="seconds"),
        code=code_version(),
        namespaces=_namespaces(),
        tables=tables,
        files=files,
        ledger=ledger,
        published=known,
        objects=copied,
    )


def _held(
    tables: dict[str, str], listed: Sequence[Object], folder: Path, begun: Path, *, objects: bool, tell: Tell
) -> tuple[int, int | None]:
    """Count the files that the tables name, all of which must be there; and copy the objects, if asked to."""
    named = set(whole(tables, {one.uri for one in listed}))
    tell(f"{len(named):,} files named by their versions, all there")
    if not objects:
        return len(named), None
    wanted = [one for one in listed if one.bucket != settings().warehouse_bucket or one.uri in named or _job(one)]
    copied = copy_out(wanted, folder, tell)
    tell(f"{copied:,} objects copied, {len(wanted) - copied:,} were there from earlier backups")
    write_objects(begun, wanted)
    return len(named), len(wanted)


def whole(tables: dict[str, str], there: set[str]) -> Iterable[str]:
    """The path of every file that the tables name; `FileNotFoundError` for the first that is not there."""
    for name, location in tables.items():
        if location not in there:
            raise FileNotFoundError(f"{name}: {location} is not there")
        for path in reachable(StaticTable.from_metadata(location, properties(settings(), acting()))):
            if path not in there:
                raise FileNotFoundError(f"{name}: {path} is not there")
            yield path


def _job(one: Object) -> bool:
    """Whether it is a job's document: a batch can be built again by it."""
    return one.key.startswith(f"{JOBS}/")


def _namespaces() -> dict[str, dict[str, str]]:
    found = catalog().list_namespaces()
    return {".".join(name): dict(catalog().load_namespace_properties(name)) for name in found}


def _tables() -> dict[str, str]:
    """Companions after the tables that they belong to, as a publish goes the other way round: a batch that is in a
    table at the cut is in its companions, too, and one that is only in those is settled by its next try."""
    names = [name for namespace in catalog().list_namespaces() for name in catalog().list_tables(namespace)]
    in_order = sorted(names, key=lambda name: (name[0] not in LAYERS, name))
    return {".".join(name): str(catalog().load_table(name).metadata_location) for name in in_order}
