"""The change feed: what a run did to the rows of silver, before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from .reading import Row


class Change(NamedTuple):
    """A row of the change feed."""

    change: Literal["insert", "update_before", "update_after", "delete"]
    key: Any
    row: Row


def difference(before: dict[Any, Row], after: dict[Any, Row]) -> Iterator[Change]:
    """What turns one state into the other, by key."""
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old is None and new is not None:
            yield Change("insert", key, new)
        elif old is not None and new is None:
            yield Change("delete", key, old)
        elif old is not None and new is not None and old != new:
            yield Change("update_before", key, old)
            yield Change("update_after", key, new)


def replayed(feeds: Iterable[Iterable[Change]]) -> dict[Any, Row]:
    """The state that the feeds of all runs, in their order, lead to; refuses a change that does not fit."""
    rows: dict[Any, Row] = {}
    for change, key, row in (found for feed in feeds for found in feed):
        if change in {"delete", "update_before"}:
            assert rows.pop(key) == row
        else:
            assert rows.setdefault(key, row) is row
    return dict(sorted(rows.items()))
