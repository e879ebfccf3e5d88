"""Which files of a table are written again in one window, and why; and what is put off."""

from __future__ import annotations

from datetime import datetime

from lakehouse.health.model import TableHealth
from lakehouse.maintenance.packing import needs_packing, packs
from lakehouse.maintenance.purging import Purges, holds_dropped, is_due, purges
from lakehouse.maintenance.rewrite_step import Scope
from lakehouse.maintenance.step import Step
from lakehouse.maintenance.units import divided, named


def rewrites(
    scope: Scope, found: TableHealth, open_from: datetime | None, now: datetime
) -> tuple[list[Step], list[str]]:
    """The steps that write files again, within one budget, and what is put off. Never a partition being written.

    Dropped columns go first; what is written again without them needs nothing else in this window.
    """
    units = divided(found.partitions, open_from, now)
    due = is_due(found, scope.policy, now)
    purged = purges(scope, units.closed) if due else Purges()
    done = {unit.where for unit in purged.units}
    rest = [unit for unit in units.closed if unit.where not in done]
    packed, over = packs(scope, rest, scope.budget_bytes - sum(step.bytes for step in purged.steps))
    waiting = [unit for unit in units.still_open if needs_packing(unit, scope.policy)]
    later = [*purged.later, *(f"{named(unit.partitions)} is still being written" for unit in waiting), *over]
    alone = units.unpicked
    if alone and (needs_packing(alone, scope.policy) or (due and holds_dropped(alone))):
        later.append(f"{named(alone.partitions)} cannot be rewritten without the whole table: no condition picks it")
    return [*purged.steps, *packed], later
