"""A plan in words, for somebody who has never seen an Iceberg table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from lakehouse.health.inspected import Inspected
from lakehouse.maintenance.purging import REWRITE_ALL
from lakehouse.maintenance.step import Plan, Step
from lakehouse.wording import size

_TITLES = {
    "set_properties": "Settings",
    "delete_old_rows": "Let old rows go",
    "clear_landing": "Clear files out of landing",
    "rewrite_data_files": "Pack small files together",
    "rewrite_manifests": "Merge lists of files",
    "expire_snapshots": "Forget old versions",
    "remove_orphan_files": "Remove files that nobody uses",
}
_WIDTH = 118
_ALL_WELL = "All tables are as they should be."
INTRODUCTION = (
    "A table is a set of files, and a list that says which of them make up each of its versions. Writing leaves small\n"
    "files, deleted rows and old versions behind, which make reading slow and storage full. Health is 100 where\n"
    "nothing is to be mended. A partition is the part of a table that holds one day, say; a contract the table's file\n"
    "in include/contracts. None of what follows changes a row that its contract keeps, and whoever writes a table\n"
    "waits for one step at most."
)


def lines(one: Inspected, plan: Plan) -> Iterator[str]:
    """What would be done to one table, and why."""
    facts = one.health
    yield (
        f"{one.name}: health {one.score.total} of 100; {facts.rows} rows in {facts.files} files, {size(facts.bytes)}"
    )
    if not plan.steps:
        yield "  Nothing to do."
    for number, step in enumerate(plan.steps, 1):
        yield f"  {number}. {_title(step)}."
        yield from _wrapped("     Why: ", _sentence(step.reason))
        yield from _wrapped("     How: ", step.does)
    for reason in plan.put_off:
        yield from _wrapped("  Not now: ", f"{reason}.")


def _wrapped(begins: str, text: str) -> list[str]:
    """Lines of a width that can be read, each beneath the words of the one before."""
    return textwrap.wrap(begins + text, _WIDTH, subsequent_indent=" " * len(begins), break_on_hyphens=False)


def _title(step: Step) -> str:
    purges = step.call is not None and REWRITE_ALL in step.call.options
    return "Take dropped columns out of files" if purges else _TITLES[step.operation]


def total(plans: list[Plan]) -> str:
    """All of it in one sentence, or two."""
    steps, waits = [step for plan in plans for step in plan.steps], any(plan.put_off for plan in plans)
    if not plans:
        return "There is no table yet."
    if not steps:
        return "Nothing is to be done now; what has to wait is named above." if waits else _ALL_WELL
    tables, work = {step.table for step in steps}, sum(step.bytes for step in steps)
    what = f"{_counted(len(steps), 'step')} on {_counted(len(tables), 'table')}"
    return f"{what}; about {size(work)} would be read and written again."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _sentence(reason: str) -> str:
    return reason[0].upper() + reason[1:] + "."
