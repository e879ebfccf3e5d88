"""Runbooks: a page for each cause, whose commands are real and begin with what the alert advises."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.advice import DOCS, RUNBOOKS, command
from lakehouse.causes import Cause
from lakehouse.intervals import Interval
from lakehouse.settings import ROOT
from tests.pages import BLOCK, check_airflow, check_lakehouse, commands

FOLDER = ROOT / DOCS / RUNBOOKS
HEADINGS = ["How to be sure", "What to do", "When it is over"]
LONGEST = 60
DAY = Interval(datetime(2026, 11, 15, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC))
EVERY_CAUSE = pytest.mark.parametrize("cause", Cause)


def text(cause: Cause) -> str:
    return (FOLDER / f"{cause}.md").read_text()


def sections(cause: Cause) -> dict[str, str]:
    """The page's parts by their headings; the first one has none."""
    first, *parts = re.split(r"^## ", text(cause), flags=re.MULTILINE)
    return {"": first} | dict(part.split("\n", 1) for part in parts)


def advised(cause: Cause) -> str | None:
    dataset = "bronze.orders" if cause is Cause.SENSOR_WAITING else "silver.orders"
    return command(cause, dataset, DAY)


def test_each_cause_has_a_page_and_no_page_lacks_a_cause():
    assert {page.stem for page in FOLDER.glob("*.md")} == {*Cause, "README"}


@EVERY_CAUSE
def test_a_page_is_short_and_says_meaning_proof_remedy_and_end(cause):
    found = sections(cause)
    assert list(found) == ["", *HEADINGS]
    assert text(cause).startswith(f"# {cause}\n")
    assert all(part.strip() for part in found.values())
    assert len(text(cause).splitlines()) <= LONGEST


@EVERY_CAUSE
def test_the_remedy_begins_with_what_the_alert_advises(cause):
    _, block = BLOCK.findall(sections(cause)["What to do"])[0]
    assert block.splitlines()[0] == advised(cause)


@EVERY_CAUSE
def test_the_proof_has_commands(cause):
    assert list(commands(sections(cause)["How to be sure"], "lakehouse"))


@EVERY_CAUSE
def test_the_table_of_all_pages_has_the_same_command(cause):
    rows = [line for line in (FOLDER / "README.md").read_text().splitlines() if f"[{cause}]({cause}.md)" in line]
    assert len(rows) == 1
    assert rows[0].endswith(f"| `{advised(cause)}` |")


@EVERY_CAUSE
@pytest.mark.parametrize("dataset", ["bronze.orders", "silver.orders", "gold.daily_sales"])
def test_what_is_advised_is_a_real_command(cause, dataset):
    told = f"`{command(cause, dataset, DAY)}`\n"
    check_lakehouse(told)
    check_airflow(told)


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_names_services_that_there_are(page: Path):
    from lakehouse.settings import Settings
    from lakehouse.stack.registry import services

    known = services(Settings(_env_file=None))
    for _, *words in commands(page.read_text(), "lakehouse"):
        if words[0] == "logs":
            assert words[1] in {service.name for service in known}, shlex.join(words)
        if words[:2] == ["up", "--only"]:
            assert words[2] in {name for s in known for name in (s.name, s.group)}, shlex.join(words)
