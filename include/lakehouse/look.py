"""One look at every dataset's SLA: what is missed and what has arrived is recorded, and on-call is told of roots."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote

from lakehouse.airflow_facts import AirflowFacts
from lakehouse.alerts import Story, closing, messages, opening
from lakehouse.alerts.model import Reason
from lakehouse.causes import Cause
from lakehouse.contracts.model import AnyContract
from lakehouse.contracts.sla import SEVERITIES, Severity
from lakehouse.diagnosis import World, blocked, diagnose
from lakehouse.incidents import covering, is_muted, may_catch_up, same_trouble, silent_behind, teller
from lakehouse.intervals import Coverage, Interval
from lakehouse.ledger import batches, heartbeats, mutes
from lakehouse.ledger import sla as ledger
from lakehouse.naming import dag_id
from lakehouse.settings import settings
from lakehouse.sla import Kind, Miss, State, Verdict, arrived_or_withdrawn, evaluate, freshness
from lakehouse.wording import clock, length

log = logging.getLogger(__name__)
WATCH = "watch"
WATCH_DATASET = "lakehouse.watch"
NOTE = "SLA"


@dataclass(frozen=True)
class Seen:
    """What could be seen of the tables. Of those that the catalog does not show, the ledger says what is published."""

    contracts: dict[str, AnyContract]
    broken: frozenset[str]  # datasets whose contract cannot be read
    held: dict[str, Coverage]
    unseen: frozenset[str] = frozenset()


class Looking:
    """The state of one look. Call it alone: which misses get an alert depends on those that have one."""

    def __init__(self, seen: Seen, airflow: AirflowFacts, now: datetime) -> None:
        self.seen, self.airflow, self.now = seen, airflow, now
        self.muted = mutes.mutes(now)
        self.open = {miss.alert_id: miss for miss in ledger.open_misses()}
        self.since = ledger.agree(promises(seen.contracts.values()), now, keep=seen.broken)
        self.world = World(seen.contracts, seen.held, airflow, seen.unseen, _rolled_back)
        self.told = self.closed = 0

    def close(self) -> None:
        """Close the misses that are over, each with a recovery where it was told."""
        for miss in list(self.open.values()):
            reason = self._over(miss)
            if reason is None:
                continue
            told = messages(closing(self._story(miss), reason, self.now)) if miss.told_at else []
            if ledger.close(miss, told, self.now):
                self.closed += bool(miss.told_at)
                self._note(miss, _note_of_end(reason, miss, self.now))
            del self.open[miss.alert_id]

    def record(self) -> None:
        """Record what is missed now. Of those with the same root one is told: the root itself, or the gravest."""
        self._look_at_services_again()
        found = [self._diagnosed(miss) for miss in self._untold()]
        for group in same_trouble(found):
            first = teller(group)
            for miss in (first, *(one for one in group if one is not first)):
                self._record(miss, group)

    def watch_is_silent(self, beat: heartbeats.Beat) -> None:
        """Record that the watch itself does not look any more."""
        stopped = Interval(beat.at, beat.at + beat.every)
        miss = Miss(WATCH_DATASET, stopped, beat.due, self.now, Kind.HEARTBEAT, Cause.WATCH_DOWN, root=WATCH)
        if miss.alert_id not in self.open:
            self._tell(replace(miss, detail=f"its last look was at {beat.at:%Y-%m-%d %H:%M:%S} UTC"), [])

    def _untold(self) -> Iterator[Miss]:
        """What is missed and has no alert of its own: newly seen, or recorded before."""
        seen: set[str] = set()
        for verdict in self._missed():
            miss = Miss(verdict.dataset, verdict.interval, verdict.due or self.now, self.now, verdict.kind)
            known = self.open.get(miss.alert_id, miss)
            seen.add(known.alert_id)
            if known.told_at is None:
                yield known
        # Those that waited so long behind another that the evaluator no longer looks back to them.
        for miss in self.open.values():
            if miss.told_at is None and miss.alert_id not in seen and miss.dataset in self.seen.contracts:
                yield miss

    def _diagnosed(self, miss: Miss) -> Miss:
        found = diagnose(miss.dataset, miss.interval, self.world)
        behind = blocked(miss.dataset, miss.interval, self.world)
        freed = miss.freed_at
        if miss.behind and freed is None:
            moved = (found.root, found.root_interval) != (miss.root, miss.root_interval)
            freed = ledger.closed_at([miss.behind]).get(miss.behind) or (self.now if moved else None)
        return replace(
            miss,
            cause=found.cause,
            detail=found.detail,
            root=found.root,
            root_interval=found.root_interval,
            blocks=behind,
            severity=_gravest(self.seen.contracts[name] for name in (miss.dataset, *behind)),
            link=_link(miss.dataset, found.run_id),
            freed_at=freed,
            path=found.path,
        )

    def _record(self, miss: Miss, group: list[Miss]) -> None:
        cover = covering(miss, self.open.values()) or silent_behind(miss, self.open.values())
        if is_muted(miss, self.muted):
            self._keep(replace(miss, behind=""))
        elif cover:
            self._keep(replace(miss, behind=cover.alert_id, freed_at=None))
        elif miss.behind and self._may_catch_up(miss):
            self._keep(miss)
        else:
            self._tell(miss, group)

    def _keep(self, miss: Miss) -> None:
        """Record without an alert."""
        new = miss.alert_id not in self.open
        if ledger.record(miss):
            self.open[miss.alert_id] = miss
            if new:
                self._note(miss, _note(miss, self.now))

    def _tell(self, miss: Miss, group: list[Miss]) -> None:
        """Record with an alert, which names all that wait for the same service."""
        if miss.of_service:
            waiting = [name for one in group for name in (one.dataset, *one.blocks) if name != miss.dataset]
            miss = replace(miss, blocks=tuple(dict.fromkeys([*miss.blocks, *waiting])))
        new = miss.alert_id not in self.open
        miss = replace(miss, told_at=self.now)
        if ledger.record(miss, messages(opening(self._story(miss)))):
            self.told += 1
            self.open[miss.alert_id] = miss
            if new:
                self._note(miss, _note(miss, self.now))

    def _look_at_services_again(self) -> None:
        """An alert for a service covers others only while that service is still what holds it up."""
        told = (m for m in self.open.values() if m.told_at and m.of_service and m.dataset in self.seen.contracts)
        for miss in list(told):
            if diagnose(miss.dataset, miss.interval, self.world).root != miss.root:
                self.open[miss.alert_id] = replace(miss, root="", root_interval="")

    def _story(self, miss: Miss) -> Story:
        of_dataset = miss.kind is not Kind.HEARTBEAT
        return Story(
            alert_id=miss.alert_id,
            kind=miss.kind.value,
            severity=miss.severity,
            due=miss.due,
            opened_at=miss.told_at or miss.opened_at,
            dataset=miss.dataset if of_dataset else None,
            contract=self.seen.contracts.get(miss.dataset),
            everybodys=miss.of_service,
            interval=miss.interval if of_dataset else None,
            cause=miss.cause,
            detail=miss.detail or None,
            root=miss.root or None,
            blocks=miss.blocks,
            link=miss.link or None,
        )

    def _missed(self) -> list[Verdict]:
        """What is late, or will be as its run has failed: late intervals first, oldest first."""
        found: list[Verdict] = []
        waiting: list[Verdict] = []
        for contract in self.seen.contracts.values():
            held = self.seen.held[contract.dataset]
            verdicts = evaluate(contract, held, self._since(contract, Kind.READY), self.now, settings().start)
            found += [v for v in verdicts if v.state is State.MISSED]
            waiting += [v for v in verdicts if v.state is State.WAITING]
            fresh = freshness(contract, held, self._since(contract, Kind.FRESH), self.now)
            if fresh and fresh.state is State.MISSED and contract.dataset not in self.seen.unseen:
                found.append(fresh)
        return sorted([*found, *self._failed(waiting)], key=lambda v: (v.kind is Kind.FRESH, v.interval))

    def _failed(self, waiting: list[Verdict]) -> Iterator[Verdict]:
        """Of intervals that are not due, those whose run has failed: they will not come by themselves."""
        if not waiting:
            return
        failed = self.airflow.failed(min(v.interval.start for v in waiting))
        yield from (v for v in waiting if (dag_id(v.dataset), v.interval.start) in failed)

    def _since(self, contract: AnyContract, kind: Kind) -> datetime:
        return self.since.get((contract.dataset, kind), self.now)

    def _over(self, miss: Miss) -> Reason | None:
        """Why a miss is over, or None. Only a table that was seen tells."""
        if miss.kind is Kind.HEARTBEAT:
            beat = heartbeats.last(WATCH)
            return "recovered" if beat and beat.at > miss.interval.start else None
        if miss.dataset in self.seen.unseen or miss.dataset in self.seen.broken:
            return None
        contract, held = self.seen.contracts.get(miss.dataset), self.seen.held.get(miss.dataset, Coverage())
        return arrived_or_withdrawn(miss, contract, held, settings().start)

    def _may_catch_up(self, miss: Miss) -> bool:
        due = self.seen.contracts[miss.dataset].due(miss.interval)
        return may_catch_up(miss, due - miss.interval.end if due else None, self.now)

    def _note(self, miss: Miss, text: str) -> None:
        if miss.kind is Kind.READY:
            self.airflow.note(dag_id(miss.dataset), miss.interval, text, NOTE)


def promises(contracts: Iterable[AnyContract]) -> dict[tuple[str, Kind], str]:
    """What each contract promises, in words that change when the promise does."""
    found: dict[tuple[str, Kind], str] = {}
    for contract in contracts:
        promise = contract.sla.as_text(contract.timezone) + (f", until {contract.end}" if contract.end else "")
        found[contract.dataset, Kind.READY] = promise
        found[contract.dataset, Kind.FRESH] = f"{contract.sla.fresh_within}; {promise}"
        found[contract.dataset, Kind.MAINTENANCE] = f"tier {contract.maintenance.tier}"
    return found


def _rolled_back(dataset: str, interval: Interval) -> bool:
    return bool(batches.undone_in(dataset, interval))


def _gravest(contracts: Iterable[AnyContract]) -> Severity:
    """An alert is as grave as the gravest that waits for it."""
    return min((c.sla.severity for c in contracts), key=SEVERITIES.index)


def _link(dataset: str, run_id: str) -> str:
    """The run in Airflow's UI, or its DAG where there is no run."""
    dag = f"{settings().airflow_url}/dags/{dag_id(dataset)}"
    return f"{dag}/runs/{quote(run_id)}" if run_id else dag


def _note(miss: Miss, now: datetime) -> str:
    state = "missed" if now > miss.due else "at risk"
    return f"{NOTE} {state}, due {clock(miss.due)}; {miss.cause}" + (f": {miss.detail}" if miss.detail else "")


def _note_of_end(reason: str, miss: Miss, now: datetime) -> str:
    late = f"missed: {reason} {length(now - miss.due)} late" if now > miss.due else f"kept after all: {reason}"
    return f"{NOTE} {late}, due {clock(miss.due)}"
