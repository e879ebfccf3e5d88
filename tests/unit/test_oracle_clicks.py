"""The oracle is right about clicks, which are only ever added, and about the sessions that they make up."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.sample import DIRT, Recipe
from lakehouse.sample.generator import folder_files
from lakehouse.settings import ROOT
from tests.oracle import Oracle, Row, click_sessions
from tests.unit.oracle_shop import DAY, DAYS, broken, counts, put, ran


def click(event: str, at: str = "2026-01-01T10:00:00.000Z", url: str = "/", user: int = 1) -> str:
    return json.dumps({"event_id": event, "user_id": user, "url": url, "at": at})


def clicked(minutes: float, event: str, url: str = "/", user: int = 1, day: date = DAY) -> Row:
    """A row of silver.clicks."""
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=minutes)
    return {"event_id": event, "user_id": user, "url": url, "page": "home", "clicked_at": at}


def test_oracle_reads_one_click() -> None:
    shop = Oracle("clicks")
    shop.run(DAY, put("clicks", a=[click("e", "2026-01-01T10:00:00.123Z", "/product/7")]))
    at = datetime(2026, 1, 1, 10, 0, 0, 123_000, tzinfo=UTC)
    assert shop.silver == {
        (DAY, "e"): {"event_id": "e", "user_id": 1, "url": "/product/7", "page": "product", "clicked_at": at}
    }
    assert ran(shop.runs[0]).feed == ()


@pytest.mark.parametrize(
    ("url", "page"),
    [("/", "home"), ("/cart", "cart"), ("/product/7/more", "product"), ("/?a=/b", "home"), ("/cart#top", "cart")],
)
def test_a_page_is_the_first_part_of_the_path(url: str, page: str) -> None:
    shop = Oracle("clicks")
    shop.run(DAY, put("clicks", a=[click("e", url=url)]))
    assert [found["page"] for found in shop.silver.values()] == [page]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (click("e", url="cart"), ("url.matches",)),
        (click("e", url="/a b"), ("url.matches",)),
        (click("e", at="2026-01-01T10:00:00Z"), ("clicked_at.type",)),
        ('{"event_id": null}', ("clicked_at.required", "event_id.required", "url.required", "user_id.required")),
    ],
)
def test_oracle_names_the_rules_that_a_click_breaks(line: str, expected: tuple[str, ...]) -> None:
    assert broken("clicks", line) == [expected]


def test_of_an_event_that_came_twice_in_an_interval_the_first_by_file_and_line_stays() -> None:
    shop = Oracle("clicks")
    run = shop.run(DAY, put("clicks", b=[click("e", url="/b")], a=["", click("e", url="/a1"), click("e", url="/a2")]))
    assert [found["url"] for found in shop.silver.values()] == ["/a1"]
    assert counts(run) == {"rows_in": 3, "inserted": 1, "duplicate": 2}


def test_an_event_that_came_on_two_days_is_there_twice() -> None:
    shop = Oracle("clicks")
    for day in DAYS[:2]:
        shop.run(day, put("clicks", day, a=[click("e"), click(str(day))]))
    assert list(shop.silver) == [(DAY, str(DAY)), (DAY, "e"), (DAYS[1], str(DAYS[1])), (DAYS[1], "e")]


def test_a_run_of_events_replaces_what_its_interval_brought_and_no_other() -> None:
    shop = Oracle("clicks")
    for day in DAYS[:2]:
        shop.run(day, put("clicks", day, a=[click("e"), click("f"), f"oops {day}"]))
    shop.run(DAY, put("clicks", a=[click("f", url="/cart"), click("g")]))
    assert {key: found["url"] for key, found in shop.silver.items()} == {
        (DAY, "f"): "/cart", (DAY, "g"): "/", (DAYS[1], "e"): "/", (DAYS[1], "f"): "/",
    }  # fmt: skip
    assert ([rejected.day for rejected in shop.quarantine], shop.bronze[DAY]) == ([DAYS[1]], 5)


# Sessions


def test_a_session_ends_where_more_than_30_minutes_pass() -> None:
    found = click_sessions([clicked(90, "d"), clicked(60, "c", "/cart"), clicked(0, "a"), clicked(30, "b")])
    assert [(s.session_number, s.clicks, s.pages) for s in found] == [(1, 4, 2)]
    found = click_sessions([clicked(0, "a"), clicked(30.001, "b"), clicked(31, "c")])
    assert [(s.session_number, s.clicks) for s in found] == [(1, 1), (2, 2)]


def test_a_session_is_one_visitor_s_and_cut_at_midnight() -> None:
    rows = [clicked(1439, "a"), clicked(1441, "b"), clicked(1439, "c", user=2)]
    assert [s[:3] for s in click_sessions(rows)] == [(DAY, 1, 1), (DAY, 2, 1), (DAYS[1], 1, 1)]


def test_an_event_that_came_twice_is_one_click() -> None:
    (found,) = click_sessions([clicked(0, "a"), clicked(0, "a"), clicked(5, "b")])
    assert found[3:] == (clicked(0, "")["clicked_at"], clicked(5, "")["clicked_at"], 2, 1)


def sessions_by_sql(rows: list[Row], file: Path) -> list[tuple[Any, ...]]:
    """What the dataset's own query gives; DuckDB understands it as Spark does."""
    # Through a file: given Python's values, DuckDB imports pandas, which takes seconds.
    values = ([row["event_id"], row["user_id"], row["url"], f"{row['clicked_at']:%F %T.%f}"] for row in rows)
    file.write_text("".join("\t".join(map(str, value)) + "\n" for value in values))
    types = "{event_id: 'TEXT', user_id: 'BIGINT', url: 'TEXT', clicked_at: 'TIMESTAMP'}"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE silver_clicks AS FROM read_csv('{file}', delim='\t', columns={types})")
        found = connection.execute((ROOT / "include/contracts/gold/click_sessions.sql").read_text()).fetchall()
    return [tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in found]


def test_the_query_for_sessions_says_what_the_oracle_says(tmp_path: Path) -> None:
    shop, recipe = Oracle("clicks"), Recipe.of(0.2, 7, DIRT)
    for day in DAYS[:2]:
        shop.run(day, dict(folder_files("clicks", day, recipe)))
    made = [clicked(minutes, str(number)) for number, minutes in enumerate([0, 30, 60.01, 60.01, 95, 1435, 1445])]
    rows = [*shop.silver.values(), *made]
    expected = click_sessions(rows)
    assert sorted(sessions_by_sql(rows, tmp_path / "clicks.tsv")) == expected
    assert max(session.session_number for session in expected) > 2
    assert len({session.session_date for session in expected}) > 2
