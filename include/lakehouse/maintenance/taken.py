"""A step that is taken: the table before and after it, what is proven of that, and what ledger and people are told."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from pyiceberg.table import Table

from lakehouse.catalog import ref_snapshot
from lakehouse.contracts.model import AnyContract
from lakehouse.health import TableHealth, health
from lakehouse.health.score import Score, concerns, score
from lakehouse.jobs import Maintained
from lakehouse.ledger import health as measures
from lakehouse.ledger import maintenance as log
from lakehouse.maintenance.acts import HasToWait
from lakehouse.maintenance.landing_steps import stayed, went
from lakehouse.maintenance.orphans import NoOrphans, removed
from lakehouse.maintenance.proof import RowsChanged, all_there, check_rows, own_versions, there
from lakehouse.maintenance.reachable import FilesMissing
from lakehouse.maintenance.step import Step
from lakehouse.provenance import lets_go
from lakehouse.steps import LeaseHeld
from lakehouse.wording import size

_LISTED = 100  # of the files that a procedure names, this many are kept in the ledger


@dataclass
class Taken:
    """One step that is being taken: its row in the ledger, and the table before and after it."""

    step: Step
    before: TableHealth
    started: float = field(default_factory=time.monotonic)
    row: int | None = None
    answer: Maintained = field(default_factory=lambda: Maintained(counters={}))
    found: Table | None = None  # as the step found it; from then on it may have changed something
    left: Table | None = None  # as the step left it; others may have written since
    lease_seconds: float = 0.0  # the longest time for which a writer had to wait
    ours: bool = True  # so the lease was, to the end
    waits: bool = False  # for somebody: it is to be tried once more
    failure: str = ""  # of this step alone: others have their turn
    error: Exception | None = None  # what is behind that
    line: str = ""  # what came of it

    @property
    def unwritten(self) -> int:
        """So many files could not be rewritten: Iceberg goes on without them, and only counts them."""
        return self.answer.counters.get("failed_data_files_count", 0)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def answered(self, more: Maintained) -> None:
        """Take the answer of one of its parts."""
        counters = Counter(self.answer.counters)
        counters.update(more.counters)
        files, failure = self.answer.files + more.files, self.answer.failure or more.failure
        self.answer = Maintained(counters=dict(counters), files=files, failure=failure)


def begin(contract: AnyContract, taken: Taken, now: datetime) -> None:
    """The step's row in the ledger, if it has none yet."""
    if taken.row is None:
        points = score(taken.before, contract.maintenance, contract.retention, now).total
        taken.row = log.begin(taken.step.table, taken.step.operation, taken.step.reason, taken.before, points)


def close(contract: AnyContract, taken: Taken, now: datetime) -> None:
    """No row more or less than before, and every file that a version names is there; then the row is closed."""
    step, left, policy = taken.step, taken.left or there(taken.step.table), contract.maintenance
    _measure_again(taken, policy.target_bytes)
    after = health(left, policy.target_bytes)
    check_rows(step.table, left, taken.before.snapshot_id)
    checked = all_there(step.table, left)
    if step.operation == "remove_orphan_files":
        taken.answer = removed(left, taken.answer)
    was, points = (score(one, policy, contract.retention, now) for one in (taken.before, after))
    read, written = _work(left, taken.before.snapshot_id)
    log.close(
        taken.row or 0,
        f"failed: {not_rewritten(taken.unwritten)}" if taken.unwritten else log.DONE,
        taken.seconds,
        before=taken.before.without_partitions().model_dump(mode="json"),
        after=after.without_partitions().model_dump(mode="json"),
        score_before=was.total,
        score_after=points.total,
        bytes_read=read,
        bytes_written=written,
        files_checked=checked,
        detail=_detail(taken),
    )
    measures.record(step.table, after, points, concerns(after, policy))
    taken.line = _line(taken, after, was, points, written)


def close_failed(taken: Taken, error: Exception) -> None:
    """Close the row, if there is one.

    A step that failed may have committed a part of its work, and must have taken no row and no file with it: if it
    has, that is what is raised.
    """
    outcome = _outcome(taken, error)
    taken.line = f"{taken.step.table}: {taken.step.operation}, for {taken.step.reason}: {_first_line(outcome)}"
    if taken.row is None:
        return
    try:
        _check(taken)
    except (FilesMissing, RowsChanged) as worse:
        log.close(taken.row, f"failed: {worse}", taken.seconds, detail=_detail(taken))
        raise worse from error
    except Exception:  # noqa: BLE001, S110  # the catalog or the store may be what failed
        pass
    log.close(taken.row, outcome, taken.seconds, detail=_detail(taken))


def ended(taken: Taken, error: Exception) -> None:
    """Close the row of a step that came to nothing, which is no reason to leave out those after it."""
    close_failed(taken, error)
    taken.waits, taken.error = isinstance(error, HasToWait), error
    if not taken.waits:
        taken.failure = f"{taken.step.operation} of {taken.step.table} {_first_line(_outcome(taken, error))}"


def not_rewritten(count: int) -> str:
    return f"{count} files could not be rewritten; Spark's log says why"


def _check(taken: Taken) -> None:
    if taken.found is not None:
        left = there(taken.step.table)
        check_rows(taken.step.table, left, ref_snapshot(taken.found))
        all_there(taken.step.table, left)


def _measure_again(taken: Taken, target_bytes: int) -> None:
    """Measure what the step found where somebody wrote since it was measured: under the lease others would wait."""
    if taken.found is not None and ref_snapshot(taken.found) != taken.before.snapshot_id:
        taken.before = health(taken.found, target_bytes)


def _outcome(taken: Taken, error: Exception) -> str:
    """How a step ended that did not end well."""
    if isinstance(error, LeaseHeld | HasToWait):
        return f"{log.PUT_OFF}: {error}"
    if taken.found is not None:
        return f"failed: {error}"
    return f"{log.REFUSED if isinstance(error, NoOrphans) else log.UNSEEN}: {error}"


def _first_line(text: str) -> str:
    """Spark's errors go on for a page."""
    return text.strip().split("\n", 1)[0]


def _detail(taken: Taken) -> dict[str, object]:
    """What the ledger keeps of the answer."""
    files, lease = list(taken.answer.files[:_LISTED]), round(taken.lease_seconds, 2)
    failure = {"failure": taken.answer.failure} if taken.answer.failure else {}
    return {**taken.answer.counters, "files": files, "lease_seconds": lease, **failure}


def _work(left: Table, since: int | None) -> tuple[int, int]:
    """What maintenance's own versions since then read and wrote, in bytes."""
    read = written = 0
    for one in (each for each in own_versions(left, since) if not lets_go(each)):
        summary = one.summary.additional_properties if one.summary else {}
        read += int(summary.get("removed-files-size", 0))
        written += int(summary.get("added-files-size", 0))
    return read, written


def _line(taken: Taken, after: TableHealth, was: Score, now: Score, written: int) -> str:
    step, before, counters = taken.step, taken.before, taken.answer.counters
    unwritten = f", {not_rewritten(taken.unwritten)}" if taken.unwritten else ""
    done = {
        "rewrite_data_files": f"files {before.files} → {after.files}, {size(written)} written{unwritten}",
        "rewrite_manifests": f"lists of files {before.manifests} → {after.manifests}",
        "expire_snapshots": f"versions {before.snapshots} → {after.snapshots}",
        "remove_orphan_files": f"{len(taken.answer.files)} files removed{stayed(taken.answer)}",
        "set_properties": f"{len(step.properties)} settings changed",
        "clear_landing": went(taken.answer),
        "delete_old_rows": f"{counters.get('rows', 'no')} rows from before {step.rows_from} gone",
    }
    return (
        f"{step.table}: {step.operation}, for {step.reason}: {done[step.operation]}, "
        f"rows {before.rows} → {after.rows}, score {was.total} → {now.total}, lease held {taken.lease_seconds:.1f} s"
    )
