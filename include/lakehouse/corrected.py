"""Which versions of landing files count, of those that were taken: as if only what landing holds now had ever come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lakehouse.batch import Corrections


class Version(NamedTuple):
    """A version of a file that a published batch took; `age` is 1 for the newest of its name."""

    batch_id: str
    uri: str
    sha256: str
    same_as: str
    replaces: str
    age: int


def corrections_of(versions: Sequence[Version]) -> Corrections:
    """What was replaced, replaced another, or is another file's now; `versions` in the order in which they were taken.

    Needed are all versions but the first of a file, those that are not the newest, and all with the same bytes.
    """
    repeats = _repeats(versions)
    replaced, inherited, dropped = [], [], []
    for row in (row for row in versions if row.age > 1):
        others = repeats.get(row, ())
        heir = min((other.uri for other in others if other.age == 1), default="")
        replaced += [(row.batch_id, name) for name in {row.uri, *(other.uri for other in others)} - {heir}]
        inherited += [(row.batch_id, row.uri, heir)] if heir else []
        dropped += [] if heir else [(row.batch_id, row.uri)]
    return Corrections(
        replaced=_sorted(replaced),
        replacing=_sorted((row.batch_id, row.uri) for row in versions if row.replaces),
        inherited=tuple(sorted(inherited)),
        dropped=_sorted(dropped),
    )


def _sorted(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(set(pairs)))


def _repeats(versions: Sequence[Version]) -> dict[Version, list[Version]]:
    """By the version whose rows they share, those that were noted as its repeats."""
    newest: dict[tuple[str, str], Version] = {}  # by name and bytes: the version whose rows that name stands for
    found: dict[Version, list[Version]] = {}
    for row in versions:
        shared = newest.get((row.same_as, row.sha256)) if row.same_as else None
        if shared:
            found.setdefault(shared, []).append(row)
        if shared or not row.same_as:
            newest[row.uri, row.sha256] = shared or row
    return found
