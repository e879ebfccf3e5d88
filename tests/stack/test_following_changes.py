"""The code that a page gives to those who follow a table's changes, run on one that changes, lags and goes back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from lakehouse import steps
from lakehouse.batch import TableWrite
from lakehouse.identities import identity
from lakehouse.naming import feed_table
from lakehouse.roles import Role
from lakehouse.rollback import carried_out, planned
from lakehouse.settings import ROOT, Settings
from tests.pages import BLOCK
from tests.stack import tables
from tests.stack.foreign import DAY, Source, lines, task

PAGE = ROOT / "include/docs/reading.md"
NEXT = DAY + timedelta(1)
FIRST = {"a.json": lines(task(1, 1), task(2, 1))}
CHANGED = {"b.json": lines(task(1, 2, "b"), task(2, 2, gone="yes"), task(3, 1))}


class Cut(Exception):
    """The run ends here."""


def example() -> Callable[..., Any]:
    """`news` as it stands on the page."""
    blocks = [body for language, body in BLOCK.findall(PAGE.read_text()) if language == "python"]
    (code,) = [body for body in blocks if "def news(" in body]
    found: dict[str, Any] = {}
    exec(code, found)
    news: Callable[..., Any] = found["news"]
    return news


class Copy:
    """A copy by key, kept as the page says."""

    def __init__(self, lake: Catalog, name: str) -> None:
        self.lake, self.name, self.news = lake, name, example()
        self.begin_anew()

    def begin_anew(self) -> None:
        self.last: dict[str, Any] | None = None
        self.held: dict[int, str] = {}

    def follow(self) -> list[str] | None:
        """Take what is new; the kinds of change that came."""
        told = self.news(self.lake, self.name, self.last)
        if told is None:
            return None
        changes, self.last = told
        for row in changes.to_pylist():
            if row["_change"] in ("insert", "update_after"):
                self.held[row["id"]] = row["name"]
            elif row["_change"] == "delete":
                del self.held[row["id"]]
        return sorted(changes["_change"].to_pylist())

    @property
    def rows(self) -> list[tuple[int, str]]:
        return sorted(self.held.items())


@pytest.fixture
def copy(stack: Settings, tasks) -> Copy:
    """A reader's, with the catalog's address and a token, which is all that the page gives."""
    token = identity(stack, Role.READER).token
    return Copy(load_catalog("lake", type="rest", uri=stack.catalog_uri, token=token), tasks.shop.silver)


def cut_before_its_table(source: Source, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second day's run ends when its feed is published, and its table is not."""
    published = steps.publish

    def publish(write: TableWrite, *given: Any, **more: Any) -> None:
        if write.table == source.shop.silver:
            raise Cut
        published(write, *given, **more)

    before = tables.head(feed_table(source.shop.silver))
    with monkeypatch.context() as patch:
        patch.setattr(steps, "publish", publish)
        with pytest.raises(Cut):
            source.run(spark, CHANGED, NEXT)
    assert tables.head(feed_table(source.shop.silver)) != before


def test_the_pages_reader_keeps_a_copy_through_a_cut_run_and_a_rollback(tasks, copy, spark, monkeypatch):
    tasks.run(spark, FIRST)
    first = tables.head(tasks.shop.silver)
    assert copy.follow() == ["insert", "insert"]
    assert copy.rows == tasks.rows("id, name") == [(1, "a"), (2, "a")]

    cut_before_its_table(tasks, spark, monkeypatch)
    assert copy.follow() == []
    assert copy.rows == tasks.rows("id, name")

    tasks.run(spark, CHANGED, NEXT)
    assert copy.follow() == ["delete", "insert", "update_after", "update_before"]
    assert copy.follow() == []
    assert copy.rows == tasks.rows("id, name") == [(1, "b"), (3, "a")]

    carried_out.apply(planned.plan(tasks.shop.contract(tasks.shop.silver), str(first)), "ann", "a test")
    assert copy.follow() is None
    copy.begin_anew()
    assert copy.follow() == ["insert", "insert"]
    assert copy.rows == tasks.rows("id, name") == [(1, "a"), (2, "a")]
