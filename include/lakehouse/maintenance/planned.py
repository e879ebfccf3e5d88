"""The plan: from a table's health, its contract and what was done before, the steps to take. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakehouse.contracts.fields import write_duration
from lakehouse.contracts.keeping import ORPHANS_FLOOR, Maintenance
from lakehouse.contracts.model import Contract
from lakehouse.errors import LakehouseError
from lakehouse.health.model import TableHealth
from lakehouse.health.score import MANIFEST_BYTES
from lakehouse.jobs import Call
from lakehouse.maintenance.landing_files import Clearing
from lakehouse.maintenance.landing_steps import cleared
from lakehouse.maintenance.old_rows import Going, ended
from lakehouse.maintenance.rewrite_step import Scope
from lakehouse.maintenance.rewriting import rewrites
from lakehouse.maintenance.step import Plan, Step
from lakehouse.wording import size


class TooYoung(LakehouseError):
    """Files of that age may belong to a write that is not done."""


@dataclass(frozen=True)
class Seen:
    """All that a plan is made from."""

    name: str
    contract: Contract
    health: TableHealth
    now: datetime
    open_from: datetime | None = None  # what is later is still being written
    expirable: int = 0  # versions past their time that nothing keeps
    expire_until: tuple[datetime, ...] = ()  # moments that part these into slices
    properties: Mapping[str, str] = field(default_factory=dict)  # the table's
    wanted: Mapping[str, str] = field(default_factory=dict)  # the contract's
    last_done: Mapping[str, datetime] = field(default_factory=dict)  # each operation's
    orphans_refused: str = ""  # why files that no version names must not be removed
    going: Going | None = None  # rows that are past their time
    rows_held: str = ""  # who has yet to take them
    clearing: Clearing | None = None  # landing files that are past their time

    @property
    def policy(self) -> Maintenance:
        return self.contract.maintenance


def plan(seen: Seen) -> Plan:
    """What the table needs, in this order; nothing where it is healthy."""
    own = seen.name == seen.contract.dataset
    let_go, held = _old_rows(seen)
    staying = _without_old(seen.health, let_go)
    rewritten, later = rewrites(Scope(seen.name, seen.policy, own), staying, seen.open_from, seen.now)
    landed, waiting = cleared(seen.contract, seen.clearing, seen.now)
    steps = [*_properties(seen), *let_go, *rewritten, *_manifests(seen), *_expiry(seen)]
    orphans = orphans_due(seen.policy, seen.last_done, seen.now) and seen.health.snapshot_id is not None
    if orphans and seen.orphans_refused:
        later.append(f"files that no version names are not looked for: {seen.orphans_refused}")
    elif orphans:
        steps.append(_orphans(seen))
    return Plan(table=seen.name, steps=(*steps, *landed), put_off=(*held, *waiting, *later))


def orphans_due(policy: Maintenance, last_done: Mapping[str, datetime], now: datetime) -> bool:
    """Whether it is time to look for files that no version names."""
    last = last_done.get("remove_orphan_files")
    return last is None or now - last >= policy.orphans_every


def orphans_before(policy: Maintenance, now: datetime) -> datetime:
    """Only files older than this may be removed; never younger ones than the floor, whatever a contract says."""
    if policy.orphans_after < ORPHANS_FLOOR:
        age, floor = write_duration(policy.orphans_after), write_duration(ORPHANS_FLOOR)
        raise TooYoung(f"files of {age} may belong to a write that is not done; orphans_after is {floor} at least")
    return now - policy.orphans_after


def _old_rows(seen: Seen) -> tuple[list[Step], list[str]]:
    """Rows that are past their time go, once everybody has taken them."""
    found, kept = seen.going, seen.contract.retention.rows
    if found is None or kept is None:
        return [], []
    what = f"{found.rows} rows in {found.files} files are from before {found.before}"
    if seen.health.delete_files:
        return [], [f"{what}, and stay as somebody has deleted rows of the table; rewrite it, or roll it back"]
    if seen.rows_held:
        return [], [f"{what}, and stay as {seen.rows_held}"]
    step = Step(
        table=seen.name,
        operation="delete_old_rows",
        reason=f"{what}, past the {write_duration(kept)} that the contract keeps",
        does=f"Takes whole partitions, {size(found.bytes)}, out of the table's newest version; reads and writes no "
        "data. Older versions have these rows until they expire, pinned ones for ever.",
        rows_from=found.before,
    )
    return [step], []


def _without_old(health: TableHealth, let_go: Sequence[Step]) -> TableHealth:
    """What stays: it would be in vain to pack what goes."""
    before = next((step.rows_from for step in let_go), None)
    if before is None:
        return health
    return health.model_copy(update={"partitions": tuple(p for p in health.partitions if not ended(p.ends, before))})


def _properties(seen: Seen) -> list[Step]:
    differing = {name: value for name, value in seen.wanted.items() if seen.properties.get(name) != value}
    if not differing:
        return []
    named = ", ".join(f"{name} = {value}" for name, value in sorted(differing.items()))
    return [
        Step(
            table=seen.name,
            operation="set_properties",
            reason=f"{len(differing)} of the table's settings are not what its contract says",
            does=f"Sets {named}. Only later writes are different.",
            properties=differing,
        )
    ]


def _manifests(seen: Seen) -> list[Step]:
    """Lists of files are merged where many small ones have to be opened before any query begins."""
    found = seen.health
    needed = max(1, -(-found.manifest_bytes // MANIFEST_BYTES))
    if found.manifests - needed < seen.policy.min_manifests:
        return []
    return [
        Step(
            table=seen.name,
            operation="rewrite_manifests",
            reason=f"every query first reads {found.manifests} lists of files, where {needed} would do",
            does="Merges these lists. No data file is touched.",
            bytes=found.manifest_bytes,
            call=Call(procedure="rewrite_manifests"),
        )
    ]


def _expiry(seen: Seen) -> list[Step]:
    """Some hundreds of versions in each step, the oldest first: all at once may hold the lease for many minutes."""
    kept = seen.contract.retention
    if not seen.expirable:
        return []
    past = f"{seen.expirable} old versions are past the {write_duration(kept.history)} that the contract keeps"
    limits = (*seen.expire_until, seen.now - kept.history)
    return [
        Step(
            table=seen.name,
            operation="expire_snapshots",
            reason=past + (f" (part {number} of {len(limits)})" if len(limits) > 1 else ""),
            does="Forgets these versions, and deletes the files that only they used. The newest "
            f"{kept.keep_last}, pinned ones, branches, and what published data was made from stay.",
            call=Call(procedure="expire_snapshots", older_than=limit, retain_last=kept.keep_last),
        )
        for number, limit in enumerate(limits, 1)
    ]


def _orphans(seen: Seen) -> Step:
    last = seen.last_done.get("remove_orphan_files")
    since = f"were last looked for on {last:%Y-%m-%d}" if last else "were never looked for"
    age = write_duration(seen.policy.orphans_after)
    return Step(
        table=seen.name,
        operation="remove_orphan_files",
        reason=f"files that no version names, as writes that were cut off leave them, {since}",
        does=f"Lists files in the table's folder that are older than {age} and that no version names; then deletes "
        f"these. The folder holds at least {size(seen.health.bytes)}.",
        call=Call(procedure="remove_orphan_files", older_than=orphans_before(seen.policy, seen.now), dry_run=True),
    )
