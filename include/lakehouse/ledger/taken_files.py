"""Landing files in the ledger: which versions of them published batches took."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, NamedTuple

from sqlalchemy import case, func, or_, select, tuple_

from lakehouse.batch import PUBLISHED, UNDONE, Corrections, InputFile, TakenFile
from lakehouse.corrected import Version, corrections_of
from lakehouse.intervals import Interval
from lakehouse.ledger.database import batches, engine, inputs


class Took(NamedTuple):
    """The bytes of a file that a batch took."""

    etag: str
    bytes: int
    batch_id: str


class Known(NamedTuple):
    """A file as a batch took it, and when."""

    batch_id: str
    uri: str
    etag: str
    bytes: int
    at: datetime


def _versions(dataset: str) -> Any:
    """Every version of every file that a published batch took, numbered from the newest."""
    newest_first = func.row_number().over(partition_by=inputs.c.uri, order_by=batches.c.intended_at.desc())
    return (
        select(inputs, batches.c.interval_start, batches.c.intended_at, newest_first.label("age"))
        .join(batches, batches.c.batch_id == inputs.c.batch_id)
        .where(inputs.c.dataset == dataset, batches.c.state == PUBLISHED)
    )


def untaken(dataset: str, files: Collection[InputFile]) -> list[InputFile]:
    """The files that no published batch has taken as they are now, in a stable order.

    One that was taken with other bytes is a correction, and names the batch that it corrects.
    """
    versions = _versions(dataset).where(inputs.c.uri == func.any([f.uri for f in files])).subquery()
    with engine().connect() as connection:
        found = connection.execute(select(versions).where(versions.c.age == 1)).mappings()
        known = {row["uri"]: row for row in found}
    fresh = [f for f in files if f.uri not in known]
    corrected = [
        f.model_copy(update={"replaces": known[f.uri]["batch_id"]})
        for f in files
        if f.uri in known and known[f.uri]["etag"] != f.etag
    ]
    return sorted([*fresh, *corrected], key=lambda f: f.uri)


def taken(dataset: str, uris: Collection[str]) -> dict[str, list[Took]]:
    """The versions of these files that published batches took, that in force first."""
    versions = _versions(dataset).where(inputs.c.uri == func.any(list(uris))).subquery()
    found: dict[str, list[Took]] = {}
    with engine().connect() as connection:
        for row in connection.execute(select(versions).order_by(versions.c.uri, versions.c.age)):
            found.setdefault(row.uri, []).append(Took(row.etag, row.bytes, row.batch_id))
    return found


def took_from(address: str, dataset: str = "") -> bool:
    """Whether a batch is known, of one dataset or of any, that took a file from under an address; undone ones count."""
    mine = (inputs.c.uri.startswith(address, autoescape=True), *([inputs.c.dataset == dataset] if dataset else []))
    known = select(inputs.c.uri).join(batches, batches.c.batch_id == inputs.c.batch_id)
    with engine().connect() as connection:
        found = connection.execute(known.where(*mine, batches.c.state.in_([PUBLISHED, UNDONE])).limit(1))
        return found.first() is not None


def undone_under(dataset: str, address: str) -> list[str]:
    """The files under an address that batches took which were all undone since."""
    published = func.max(case((batches.c.state == PUBLISHED, 1), else_=0))
    statement = (
        select(inputs.c.uri)
        .join(batches, batches.c.batch_id == inputs.c.batch_id)
        .where(inputs.c.dataset == dataset, inputs.c.uri.startswith(address, autoescape=True))
        .where(batches.c.state.in_([PUBLISHED, UNDONE]))
        .group_by(inputs.c.uri)
        .having(published == 0)
    )
    with engine().connect() as connection:
        return list(connection.execute(statement).scalars())


def taken_under(address: str) -> list[Known]:
    """What published batches took from under an address, of whichever dataset."""
    return _known(batches.c.state == PUBLISHED, inputs.c.uri.startswith(address, autoescape=True))


def taken_by(batch_ids: Collection[str]) -> list[Known]:
    """What these batches took."""
    return _known(inputs.c.batch_id.in_(batch_ids)) if batch_ids else []


def _known(*conditions: Any) -> list[Known]:
    columns = (inputs.c.batch_id, inputs.c.uri, inputs.c.etag, inputs.c.bytes, batches.c.intended_at)
    statement = select(*columns).join(batches, batches.c.batch_id == inputs.c.batch_id).where(*conditions)
    with engine().connect() as connection:
        return [Known(*row) for row in connection.execute(statement)]


def known_content(dataset: str, files: Collection[InputFile], within: Interval | None) -> dict[str, str]:
    """By SHA-256, the other files in force that are as long as one of these; of one interval only, or of all."""
    versions = _versions(dataset).subquery()
    statement = select(versions.c.sha256, versions.c.uri).where(
        versions.c.age == 1,
        versions.c.bytes == func.any([f.bytes for f in files]),
        versions.c.uri != func.all([f.uri for f in files]),
    )
    if within is not None:
        statement = statement.where(versions.c.interval_start == within.start)
    with engine().connect() as connection:
        return {row.sha256: row.uri for row in connection.execute(statement.order_by(versions.c.uri.desc()))}


def repeats_before(dataset: str, files: Collection[InputFile], day: date) -> list[str]:
    """Of files that correct another, those whose earlier bytes count as rows of a file from before that day."""
    versions = _versions(dataset).subquery()
    older = versions.alias()
    statement = select(versions.c.uri).where(
        tuple_(versions.c.batch_id, versions.c.uri).in_([(f.replaces, f.uri) for f in files if f.replaces]),
        versions.c.same_as != "",
        older.c.sha256 == versions.c.sha256,
        older.c.same_as == "",
        older.c.rows > 0,
        older.c.interval_start < _midnight(day),
    )
    with engine().connect() as connection:
        return sorted(set(connection.execute(statement).scalars()))


def published_until(dataset: str, day: date) -> datetime | None:
    """When the last batch came whose interval begins before that day."""
    statement = select(func.max(batches.c.published_at)).where(
        batches.c.dataset == dataset, batches.c.state == PUBLISHED, batches.c.interval_start < _midnight(day)
    )
    with engine().connect() as connection:
        return connection.execute(statement).scalar()


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


def corrections(dataset: str, batch_id: str = "", coming: Sequence[TakenFile] = ()) -> Corrections:
    """The file versions that were replaced since, those that replaced one, and those that are another file's now.

    As they will be once a batch is published, if one and its files are given.
    """
    found = _needed(dataset, [file.uri for file in coming if file.replaces])
    newer = {file.uri for file in coming}
    aged = [one._replace(age=one.age + (one.uri in newer)) for one in found if one.batch_id != batch_id]
    new = [Version(batch_id, f.uri, f.sha256, f.same_as, f.replaces, 1) for f in sorted(coming, key=lambda f: f.uri)]
    return corrections_of([*aged, *new])


def _needed(dataset: str, more: Collection[str]) -> list[Version]:
    """What `corrections_of` needs to know of files that were corrected, and of more."""
    replacing = select(inputs.c.uri).where(inputs.c.dataset == dataset, inputs.c.replaces != "")
    versions = _versions(dataset).subquery()
    corrected, again = versions.c.uri.in_(replacing), versions.c.uri == func.any(list(more))
    known = or_(corrected & or_(versions.c.age > 1, versions.c.replaces != ""), again)
    contents = select(versions.c.sha256).where(or_(corrected & (versions.c.age > 1), again))
    needed = select(*(versions.c[name] for name in Version._fields)).where(or_(known, versions.c.sha256.in_(contents)))
    with engine().connect() as connection:
        found = connection.execute(needed.order_by(versions.c.intended_at, versions.c.uri.collate("C")))
        return [Version(*row) for row in found]


def outdated_rows(dataset: str, batch_id: str, coming: Sequence[TakenFile]) -> dict[str, int]:
    """By batch, the rows that it brought and that count no more, once this one is published."""
    dropped = corrections(dataset, batch_id, coming).dropped
    rows = select(inputs.c.batch_id, func.sum(inputs.c.rows)).group_by(inputs.c.batch_id)
    with engine().connect() as connection:
        found = connection.execute(rows.where(tuple_(inputs.c.batch_id, inputs.c.uri).in_(dropped)))
        return {row[0]: int(row[1]) for row in found}
