"""Landing files that have gone, or are about to: one row for each of their versions, begun before it is touched."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Exists,
    Row,
    Select,
    Subquery,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert

from lakehouse.batch import PUBLISHED
from lakehouse.intervals import Interval
from lakehouse.ledger.database import batches, engine, inputs
from lakehouse.ledger.database import landing_gone as gone

BEGUN, DONE, ABSENT = "begun", "done", "absent"
_AT_ONCE = 1_000  # rows in one statement
_UNWRITTEN = datetime.max.replace(tzinfo=UTC)


class Due(NamedTuple):
    """A file, as the newest of the published batches that took these bytes of it knows it."""

    uri: str
    etag: str
    bytes: int
    batch_id: str
    interval: Interval
    taken_at: datetime
    malformed: int | None = 0  # records that could not be read as they came; None: nobody counted


class Span(NamedTuple):
    """When files were taken, both ends included; and whether those count whose going was begun and came to nothing."""

    before: datetime
    since: datetime | None = None
    begun: bool = True


class Passing(NamedTuple):
    """Files that stay by what the ledger alone knows of them, and that nobody has to look at."""

    under: tuple[str, ...] = ()  # whose addresses begin so
    unread: bool = False  # of which something could not be read, or was not counted


NOTHING = Passing()


class Staying(NamedTuple):
    """So many files that stay: for the address that theirs begin with, or else for what could not be read."""

    under: str
    counted: bool
    files: int


class Gone(NamedTuple):
    """A version of a file that went, or is about to."""

    dataset: str
    batch_id: str
    uri: str
    version: str
    etag: str
    bytes: int
    archived_to: str
    state: str
    at: datetime = _UNWRITTEN  # by the ledger's clock


_KEY = (gone.c.dataset, gone.c.batch_id, gone.c.uri, gone.c.version)


def due(
    dataset: str, within: str, span: Span, limit: int, after: Due | None = None, passing: Passing = NOTHING
) -> list[Due]:
    """The dataset's files under an address that were taken in that time and have not gone, oldest first.

    A file whose bytes several batches took is as old as the newest of them. `after`: only those behind this one.
    """
    by = _old(dataset, span, after).subquery("taken_by")
    place = (by.c.published_at, inputs.c.uri, inputs.c.batch_id)
    known = (inputs.c.uri, inputs.c.etag, inputs.c.bytes, inputs.c.batch_id, inputs.c.malformed)
    page = (
        select(*known, by.c.published_at)
        .join(by, by.c.batch_id == inputs.c.batch_id)
        .where(*_are_due(dataset, within, span, by), *(~one for one in _passed(passing)))
        .order_by(*place)
        .limit(limit)
    )
    if after is not None:
        last = zip((after.taken_at, after.uri, after.batch_id), place, strict=True)
        page = page.where(tuple_(*place) > tuple_(*(literal(value, column.type) for value, column in last)))
    few = page.subquery()
    whole = select(few, batches.c.interval_start, batches.c.interval_end).join(
        batches, batches.c.batch_id == few.c.batch_id
    )
    with engine().connect() as connection:
        rows = connection.execute(whole.order_by(few.c.published_at, few.c.uri, few.c.batch_id))
        return [_due(row) for row in rows]


def staying(dataset: str, within: str, span: Span, passing: Passing) -> list[Staying]:
    """How many files would be due, and are passed over."""
    if not (stay := _passed(passing)):
        return []
    by = _old(dataset, span).subquery("taken_by")
    begins = [(inputs.c.uri.startswith(one, autoescape=True), literal(one)) for one in passing.under]
    why = case(*begins, else_="") if begins else literal("")
    each = (
        select(why.label("under"), inputs.c.malformed.is_not(None).label("counted"), inputs.c.uri)
        .join(by, by.c.batch_id == inputs.c.batch_id)
        .where(*_are_due(dataset, within, span, by), or_(*stay))
        .subquery()
    )
    reasons = (each.c.under, each.c.counted)
    statement = select(*reasons, func.count(each.c.uri.distinct())).group_by(*reasons)
    with engine().connect() as connection:
        return [Staying(under, bool(known), files) for under, known, files in connection.execute(statement)]


def _old(dataset: str, span: Span, after: Due | None = None) -> Select[Any]:
    """The batches of that time."""
    old = _published(dataset).where(batches.c.published_at <= span.before)
    since = after.taken_at if after else span.since
    return old if since is None else old.where(batches.c.published_at >= since)


def _are_due(dataset: str, within: str, span: Span, by: Subquery) -> list[ColumnElement[bool]]:
    mine = [inputs.c.dataset == dataset, inputs.c.uri.startswith(within, autoescape=True)]
    return [*mine, ~_over(dataset, span.begun), ~_taken_again(dataset, by)]


def _passed(passing: Passing) -> list[ColumnElement[bool]]:
    begins = [inputs.c.uri.startswith(one, autoescape=True) for one in passing.under]
    return [*begins, *([func.coalesce(inputs.c.malformed, 1) != 0] if passing.unread else [])]


def _due(row: Row[Any]) -> Due:
    of = Interval(row.interval_start, row.interval_end)
    return Due(row.uri, row.etag, row.bytes, row.batch_id, of, row.published_at, row.malformed)


def _published(dataset: str) -> Select[Any]:
    columns = (batches.c.batch_id, batches.c.published_at)
    return select(*columns).where(batches.c.dataset == dataset, batches.c.state == PUBLISHED)


def _over(dataset: str, begun: bool) -> Exists:
    """Whether the file has gone; where what was begun does not count either, whether that was tried."""
    mine = (gone.c.dataset == dataset, gone.c.batch_id == inputs.c.batch_id, gone.c.uri == inputs.c.uri)
    return select(gone.c.uri).where(*mine, *([gone.c.state != BEGUN] if begun else [])).exists()


def _taken_again(dataset: str, by: Subquery) -> Exists:
    """Whether a later batch took the same bytes of the file."""
    again, later = inputs.alias(), _published(dataset).subquery()
    same = (again.c.dataset == dataset, again.c.uri == inputs.c.uri, again.c.etag == inputs.c.etag)
    behind = tuple_(later.c.published_at, later.c.batch_id) > tuple_(by.c.published_at, by.c.batch_id)
    return select(again.c.uri).join(later, later.c.batch_id == again.c.batch_id).where(*same, behind).exists()


def note(rows: Sequence[Gone]) -> None:
    """Write down what is about to go, what went, or what was not there any more."""
    for first in range(0, len(rows), _AT_ONCE):
        given = [{**row._asdict(), "at": func.now()} for row in rows[first : first + _AT_ONCE]]
        new = insert(gone).values(given)
        again = {name: new.excluded[name] for name in ("etag", "bytes", "archived_to", "state", "at")}
        with engine().begin() as connection:
            connection.execute(new.on_conflict_do_update(index_elements=list(_KEY), set_=again))


def forget(rows: Sequence[Gone]) -> None:
    """What was begun and came to nothing: these files are there, and as due as before."""
    keys = [(row.dataset, row.batch_id, row.uri, row.version) for row in rows]
    with engine().begin() as connection:
        connection.execute(delete(gone).where(gone.c.state == BEGUN, tuple_(*_KEY).in_(keys)))


def begun(dataset: str) -> list[Gone]:
    """What was begun and not ended: whoever did it was killed."""
    return _found(gone.c.dataset == dataset, gone.c.state == BEGUN)


def under(address: str) -> list[Gone]:
    """What went from under an address, whichever dataset took it, in the order in which it went."""
    return _found(gone.c.uri.startswith(address, autoescape=True))


def taken_by(batch_ids: Collection[str]) -> list[Gone]:
    """What these batches took and is gone, whichever dataset's maintenance did it."""
    theirs = select(inputs.c.uri, inputs.c.etag).where(inputs.c.batch_id.in_(batch_ids))
    return _found(tuple_(gone.c.uri, gone.c.etag).in_(theirs)) if batch_ids else []


def _found(*conditions: Any) -> list[Gone]:
    statement = select(*(gone.c[name] for name in Gone._fields)).where(*conditions).order_by(gone.c.at, *_KEY)
    with engine().connect() as connection:
        return [Gone(*row) for row in connection.execute(statement)]
