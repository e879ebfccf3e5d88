"""What a backup is made of. Its folder holds one folder per backup, and all objects beside them, each kept once."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from lakehouse.errors import LakehouseError

FORMAT = 1
DESCRIPTION = "backup.json"
OBJECTS = "objects.csv"


class NoBackup(LakehouseError):
    """There is no backup in a folder, or not a whole one."""


class Rows(BaseModel):
    """One table of the ledger, in ledger/<name>.csv."""

    model_config = ConfigDict(frozen=True)

    rows: int
    sha256: str


class Backup(BaseModel):
    """The description of one backup. It is written last: without it there is no backup."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    at: str
    code: str
    namespaces: dict[str, dict[str, str]]
    tables: dict[str, str]  # the metadata file that each one is
    files: int  # that the tables' versions name
    ledger: dict[str, Rows]
    published: str  # which batches the ledger knows, and in which state
    objects: int | None  # copied; None: they are kept by other means


class Object(NamedTuple):
    """One object of the store as it was."""

    bucket: str
    key: str
    etag: str
    bytes: int

    @property
    def uri(self) -> str:
        """As tables and the ledger name it."""
        return f"s3://{self.bucket}/{self.key}"

    def within(self, folder: Path) -> Path:
        """Where a copy is kept. Other content is another file, so what is there need not be copied again."""
        name = hashlib.sha256(f"{self.bucket}\0{self.key}\0{self.etag}".encode()).hexdigest()
        return folder / "objects" / name[:2] / name


def newest(folder: Path, name: str = "") -> tuple[Path, Backup]:
    """The named backup of a folder, else the newest; half ones are not seen."""
    found = sorted(path.parent for path in folder.glob(f"{name or '*'}/{DESCRIPTION}"))
    if not found:
        raise NoBackup(f"{folder} holds no backup{f' {name}' if name else ''}; `lakehouse backup {folder}` makes one.")
    try:
        read = Backup.model_validate_json((found[-1] / DESCRIPTION).read_text())
    except ValidationError as error:
        raise NoBackup(f"{found[-1] / DESCRIPTION} is not the description of a backup: {error}") from error
    if read.format != FORMAT:
        raise NoBackup(f"{found[-1]} has format {read.format}, this version reads {FORMAT}: restore it by its own one.")
    return found[-1], read


def write_objects(place: Path, objects: Iterable[Object]) -> None:
    with (place / OBJECTS).open("w", newline="") as file:
        csv.writer(file).writerows(objects)


def read_objects(place: Path) -> Iterator[Object]:
    with (place / OBJECTS).open(newline="") as file:
        for bucket, key, etag, size in csv.reader(file):
            yield Object(bucket, key, etag, int(size))
