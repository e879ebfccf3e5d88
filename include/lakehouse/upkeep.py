"""What on-call should know of tables besides their SLA: which are worn, and whose maintenance is late. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehouse.contracts.model import AnyContract, Contract
from lakehouse.contracts.sla import SEVERITIES, Severity
from lakehouse.naming import dag_id, digest, maintenance_dag_id

# How often a tier has its turn.
EVERY = {"hot": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(days=7)}
# One turn may fail or be put off; after the second it is late.
TURNS, SLACK = 2, timedelta(hours=2)
LATE = "late"
# One that has not ended by then was killed.
LONGEST = timedelta(hours=12)


@dataclass(frozen=True)
class Turn:
    """A dataset's last turn."""

    dataset: str
    begun_at: datetime
    ended_at: datetime | None
    done_at: datetime | None
    outcome: str

    def under_way(self, now: datetime) -> bool:
        """Whether it is not over yet."""
        over = self.ended_at is not None and self.ended_at >= self.begun_at
        return not over and now - self.begun_at < LONGEST


@dataclass(frozen=True)
class Trouble:
    """A table that is past a threshold, or a dataset whose maintenance is late; its kind stays while it lasts."""

    dataset: str
    table: str
    kind: str
    severity: Severity
    detail: str
    due: datetime
    opened_at: datetime
    told_at: datetime | None = None
    under_way: bool = False  # maintenance is at it just now
    known_as: str = ""  # in the ledger

    @property
    def alert_id(self) -> str:
        """The same trouble has the same id, whoever finds it; when it comes again, it has another."""
        mark = digest([self.table, self.kind, self.due.isoformat()])
        return self.known_as or f"upkeep-{dag_id(self.table)}-{self.kind}-{mark}"


@dataclass(frozen=True)
class Upkeep:
    """All that troubles are found from."""

    contracts: Mapping[str, AnyContract]
    measured: Mapping[str, tuple[datetime, Mapping[str, str]]]  # each table's concerns, and when it was looked at
    turns: Mapping[str, Turn]
    since: Mapping[str, datetime]  # when each dataset's promise of maintenance was first seen
    now: datetime
    only_at_night: bool = False  # maintenance runs by itself in some hours of the day only


def troubles(seen: Upkeep) -> Iterator[Trouble]:
    """What is wrong now, whether or not anybody was told."""
    for contract in seen.contracts.values():
        turn = seen.turns.get(contract.dataset)
        yield from _worn(contract, seen, under_way=turn is not None and turn.under_way(seen.now))
        yield from _late(contract, seen, turn)


def severity(contract: Contract) -> Severity:
    """Nobody is woken for a table that reads slowly: at most a warning."""
    return max(contract.sla.severity, "warning", key=SEVERITIES.index)


def _worn(contract: AnyContract, seen: Upkeep, *, under_way: bool) -> Iterator[Trouble]:
    for name in contract.tables:
        at, concerns = seen.measured.get(name, (seen.now, {}))
        for kind, told in sorted(concerns.items()):
            grave = severity(contract)
            yield Trouble(contract.dataset, name, kind, grave, told, at, seen.now, under_way=under_way)


def _late(contract: AnyContract, seen: Upkeep, turn: Turn | None) -> Iterator[Trouble]:
    since, tier = seen.since.get(contract.dataset), contract.maintenance.tier
    if since is None:
        return
    done = max(turn.done_at, since) if turn and turn.done_at else since
    due = done + TURNS * EVERY[tier] + SLACK + timedelta(days=seen.only_at_night)
    if seen.now > due:
        told = turn.outcome if turn else f"{maintenance_dag_id(tier)} has never looked at it"
        yield Trouble(contract.dataset, contract.dataset, LATE, severity(contract), told, due, seen.now)
