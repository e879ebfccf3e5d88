"""Batches in the ledger: intent before publish, confirmation after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, NamedTuple

from sqlalchemy import delete, func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from lakehouse.batch import BEGINNING, INTENT, PUBLISHED, UNDONE, Batch, Corrections, InputFile, TakenFile
from lakehouse.intervals import Coverage, Interval
from lakehouse.ledger.database import batches, engine, inputs
from lakehouse.naming import layer_of


class Took(NamedTuple):
    """The bytes of a file that a batch took."""

    etag: str
    bytes: int
    batch_id: str


def _row(batch: Batch) -> dict[str, Any]:
    times = {"interval_start": batch.interval_start, "interval_end": batch.interval_end}
    return {**batch.model_dump(mode="json", exclude={*times, "published_at"}), **times}


def intend(batch: Batch, files: Iterable[TakenFile] = ()) -> None:
    """Write down that this batch is about to be published, with the inputs it takes."""
    row = {**_row(batch), "state": INTENT, "intended_at": func.now(), "published_at": None}
    taken = [{"batch_id": batch.batch_id, "dataset": batch.dataset, **f.model_dump()} for f in files]
    with engine().begin() as connection:
        connection.execute(insert(batches).values(row).on_conflict_do_update(index_elements=["batch_id"], set_=row))
        if taken:  # of an earlier try nothing is kept: what this one read counts
            connection.execute(delete(inputs).where(inputs.c.batch_id == batch.batch_id))
            connection.execute(insert(inputs), taken)


def settle(batch_id: str, state: str, measures: Mapping[str, float] | None = None) -> None:
    """Record how an intended batch ended, and what is known of it now."""
    values: dict[str, Any] = {"state": state, "published_at": func.now() if state == PUBLISHED else None}
    values |= {"measures": dict(measures)} if measures else {}
    with engine().begin() as connection:
        connection.execute(update(batches).where(batches.c.batch_id == batch_id).values(values))


def _found(*conditions: Any, limit: int | None = None, order: Any = None) -> list[Batch]:
    columns = [batches.c[name] for name in Batch.model_fields]
    newest_first = (batches.c.intended_at.desc(),) if order is None else (order, batches.c.intended_at.desc())
    statement = select(*columns).where(*conditions).order_by(*newest_first).limit(limit)
    with engine().connect() as connection:
        return [Batch.model_validate(dict(row)) for row in connection.execute(statement).mappings()]


def unsettled(dataset: str) -> list[Batch]:
    """Batches whose publish was begun and not confirmed."""
    return _found(batches.c.dataset == dataset, batches.c.state == INTENT)


def published_in(dataset: str, interval: Interval) -> list[Batch]:
    """The published batches of one interval, newest first."""
    return _found(
        batches.c.dataset == dataset,
        batches.c.state == PUBLISHED,
        batches.c.interval_start >= interval.start,
        batches.c.interval_end <= interval.end,
    )


def published_across(dataset: str, interval: Interval) -> list[Batch]:
    """The published batches whose interval lies in this one only in part."""
    return _found(
        batches.c.dataset == dataset,
        batches.c.state == PUBLISHED,
        batches.c.interval_start < interval.end,
        batches.c.interval_end > interval.start,
        batches.c.interval_start > BEGINNING,
        or_(batches.c.interval_start < interval.start, batches.c.interval_end > interval.end),
    )


def published(dataset: str) -> list[Batch]:
    """Every published batch of a dataset, newest first."""
    return _found(batches.c.dataset == dataset, batches.c.state == PUBLISHED)


def accepted_before(dataset: str, interval: Interval, count: int) -> list[int]:
    """How many records the intervals before brought that were accepted, newest first.

    In bronze an interval's batches add up; in silver a later one takes the earlier one's place.
    """
    before = (
        batches.c.dataset == dataset,
        batches.c.state == PUBLISHED,
        batches.c.interval_end <= interval.start,
        batches.c.interval_start > BEGINNING,  # records that were replayed are of no interval
    )
    starts = select(batches.c.interval_start).where(*before).distinct().order_by(batches.c.interval_start.desc())
    known = _found(
        *before,
        batches.c.interval_start.in_(starts.limit(count)),
        order=batches.c.interval_start.desc(),
    )
    by_interval: dict[datetime, int] = {}
    for batch in known:
        rows = batch.counts.get("rows_in", 0) - batch.counts.get("quarantined", 0)
        if layer_of(dataset) == "bronze":
            rows += by_interval.pop(batch.interval_start, 0)
        by_interval.setdefault(batch.interval_start, rows)
    return list(by_interval.values())


def runs_of(batch_ids: Collection[str]) -> dict[str, str]:
    """The run that made each of these batches."""
    statement = select(batches.c.batch_id, batches.c.run).where(batches.c.batch_id.in_(batch_ids))
    with engine().connect() as connection:
        return {row.batch_id: row.run for row in connection.execute(statement)}


def by_id(batch_ids: Collection[str]) -> list[Batch]:
    return _found(batches.c.batch_id.in_(batch_ids))


def settled(dataset: str) -> list[Batch]:
    """Batches that main holds, and those that were undone, newest first."""
    return _found(batches.c.dataset == dataset, batches.c.state.in_([PUBLISHED, UNDONE]))


def recent(dataset: str, limit: int = 30) -> list[Batch]:
    return _found(batches.c.dataset == dataset, limit=limit)


def since_written(dataset: str, name: str, state: str) -> list[Batch]:
    """Batches that ended so after the newest published one that looked at this table of the dataset."""
    newest = select(func.max(batches.c.intended_at)).where(
        batches.c.dataset == dataset, batches.c.state == PUBLISHED, batches.c.writes.contains([{"table": name}])
    )
    after = batches.c.intended_at > func.coalesce(newest.scalar_subquery(), text("'-infinity'::timestamptz"))
    return _found(batches.c.dataset == dataset, batches.c.state == state, after)


def _versions(dataset: str) -> Any:
    """Every version of every file that a published batch took, numbered from the newest."""
    newest_first = func.row_number().over(partition_by=inputs.c.uri, order_by=batches.c.intended_at.desc())
    return (
        select(inputs, batches.c.interval_start, newest_first.label("age"))
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


def took_from(dataset: str, address: str) -> bool:
    """Whether a batch is known that took a file from under an address, published, or undone since."""
    statement = select(inputs.c.uri).join(batches, batches.c.batch_id == inputs.c.batch_id)
    mine = (inputs.c.dataset == dataset, inputs.c.uri.startswith(address, autoescape=True))
    with engine().connect() as connection:
        known = statement.where(*mine, batches.c.state.in_([PUBLISHED, UNDONE])).limit(1)
        return connection.execute(known).first() is not None


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


def corrections(dataset: str) -> Corrections:
    """The file versions that were replaced since, those that replaced one, and those that are another file's now."""
    corrected = select(inputs.c.uri).where(inputs.c.dataset == dataset, inputs.c.replaces != "")
    versions = _versions(dataset).subquery()
    old_or_new = or_(versions.c.age > 1, versions.c.replaces != "")
    with engine().connect() as connection:
        found = list(connection.execute(select(versions).where(versions.c.uri.in_(corrected), old_or_new)))
        contents = {row.sha256 for row in found if row.age > 1}
        alike = select(versions).where(versions.c.sha256.in_(contents)).order_by(versions.c.age, versions.c.uri)
        repeats = _repeats(list(connection.execute(alike)))
    replaced, inherited = [], []
    for row in (row for row in found if row.age > 1):
        others = repeats.get((row.batch_id, row.uri), ())
        heir = next((other.uri for other in others if other.age == 1), "")
        replaced += [(row.batch_id, name) for name in {row.uri, *(other.uri for other in others)} - {heir}]
        inherited += [(row.batch_id, row.uri, heir)] if heir else []
    return Corrections(
        replaced=tuple(sorted(replaced)),
        replacing=tuple(sorted((row.batch_id, row.uri) for row in found if row.replaces)),
        inherited=tuple(sorted(inherited)),
    )


def _repeats(alike: Sequence[Any]) -> dict[tuple[str, str], list[Any]]:
    """By the version (batch, uri) whose rows they share: the versions, newest first, that were noted as its repeats."""
    found: dict[tuple[str, str], list[Any]] = {}
    for row in alike:
        if row.same_as and (shared := _shared(row, alike)):
            found.setdefault((shared.batch_id, shared.uri), []).append(row)
    return found


def _shared(repeat: Any, alike: Sequence[Any]) -> Any:
    """The version that was taken for a repeat, which may have been noted as the repeat of a repeat."""
    row, seen = repeat, {""}
    while row is not None and row.same_as not in seen:
        seen.add(row.same_as)
        named = [one for one in alike if one.uri == row.same_as and one.sha256 == row.sha256]
        row = next((one for one in named if not one.same_as), next(iter(named), None))
    return None if row is None or row.same_as else row


def coverages() -> dict[str, Coverage]:
    """The intervals of each dataset that the ledger knows as published: for when the catalog cannot be asked."""
    statement = select(batches.c.dataset, batches.c.interval_start, batches.c.interval_end).where(
        batches.c.state == PUBLISHED, batches.c.interval_start > BEGINNING
    )
    found: dict[str, list[Interval]] = {}
    with engine().connect() as connection:
        for row in connection.execute(statement):
            found.setdefault(row.dataset, []).append(Interval(row.interval_start, row.interval_end))
    return {dataset: Coverage.of(intervals) for dataset, intervals in found.items()}


def undone_in(dataset: str, interval: Interval) -> list[Batch]:
    """The batches of one interval that were rolled back, newest first."""
    mine = (batches.c.interval_start >= interval.start, batches.c.interval_end <= interval.end)
    return _found(batches.c.dataset == dataset, batches.c.state == UNDONE, *mine)
