"""A plan in words, for somebody who has never seen an Iceberg table."""

from __future__ import annotations

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
INTRODUCTION = (
    "A table is a set of files, and a list that says which of them make up each of its versions. Writing leaves small\n"
    "files, deleted rows and old versions behind, which make reading slow and storage full. None of what follows\n"
    "changes a row that its contract keeps."
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
        yield f"     Why: {_sentence(step.reason)}"
        yield f"     How: {step.does}"
    for reason in plan.put_off:
        yield f"  Not now: {reason}."


def _title(step: Step) -> str:
    purges = step.call is not None and REWRITE_ALL in step.call.options
    return "Take dropped columns out of files" if purges else _TITLES[step.operation]


def total(steps: list[Step]) -> str:
    """All of it in one sentence."""
    if not steps:
        return "All tables are as they should be."
    tables, work = {step.table for step in steps}, sum(step.bytes for step in steps)
    what = f"{_counted(len(steps), 'step')} on {_counted(len(tables), 'table')}"
    return f"{what}; about {size(work)} would be read and written again."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _sentence(reason: str) -> str:
    return reason[0].upper() + reason[1:] + "."
