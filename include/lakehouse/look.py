"""One look at every dataset's SLA: what is missed and what has arrived is recorded, and on-call is told of roots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import quote

from lakehouse.airflow_facts import AirflowFacts
from lakehouse.alerts import Story, closing, messages, opening
from lakehouse.alerts.model import Reason
from lakehouse.causes import Cause
from lakehouse.contracts.model import AnyContract
from lakehouse.contracts.sla import SEVERITIES, Severity
from lakehouse.diagnosis import Diagnosis, World, blocked, diagnose
from lakehouse.incidents import covering, is_muted, may_catch_up, silent_behind
from lakehouse.intervals import Coverage, Interval
from lakehouse.ledger import batches, heartbeats, mutes
from lakehouse.ledger import sla as ledger
from lakehouse.naming import dag_id
from lakehouse.settings import settings
from lakehouse.sla import Kind, Miss, State, Verdict, arrived_or_withdrawn, evaluate, freshness

WATCH = "watch"
WATCH_DATASET = "lakehouse.watch"


@dataclass(frozen=True)
class Seen:
    """What could be seen of the tables. Where the catalog does not answer, the ledger says what is published."""

    contracts: dict[str, AnyContract]
    broken: frozenset[str]  # datasets whose contract cannot be read
    held: dict[str, Coverage]
    catalog_answers: bool = True


class Looking:
    """The state of one look. Call it alone: which misses get an alert depends on those that have one."""

    def __init__(self, seen: Seen, airflow: AirflowFacts, now: datetime) -> None:
        self.seen, self.airflow, self.now = seen, airflow, now
        self.muted = mutes.mutes(now)
        self.open = {miss.alert_id: miss for miss in ledger.open_misses()}
        self.since = ledger.agree(promises(seen.contracts.values()), now)
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
                self._note(miss, f"SLA missed: {reason} {_span(self.now - miss.due)} after it was due")
            del self.open[miss.alert_id]

    def record(self) -> None:
        """Record what is missed now: first what others are made from, so that the root is told."""
        world = World(
            contracts=self.seen.contracts,
            held=self.seen.held,
            catalog_answers=self.seen.catalog_answers,
            airflow=self.airflow,
            rolled_back=_rolled_back,
        )
        for verdict in self._missed():
            miss = Miss(verdict.dataset, verdict.interval, verdict.due or self.now, self.now, verdict.kind)
            known = self.open.get(miss.alert_id)
            if known is None or known.told_at is None:
                self._record(replace(miss, opened_at=known.opened_at) if known else miss, known, world)

    def watch_is_silent(self, beat: heartbeats.Beat) -> None:
        """Record that the watch itself does not look any more."""
        stopped = Interval(beat.at, beat.at + beat.every)
        miss = Miss(WATCH_DATASET, stopped, beat.due, self.now, Kind.HEARTBEAT, Cause.WATCH_DOWN, root=WATCH)
        if miss.alert_id not in self.open:
            self._tell(replace(miss, detail=f"its last look was at {beat.at:%Y-%m-%d %H:%M:%S} UTC"), None)

    def _record(self, miss: Miss, known: Miss | None, world: World) -> None:
        found = diagnose(miss.dataset, miss.interval, world)
        miss = replace(miss, cause=found.cause, detail=found.detail, root=found.root, root_interval=found.root_interval)
        cover = covering(miss, self.open.values()) or silent_behind(miss, self.open.values())
        if is_muted(miss, self.muted):
            self._keep(miss, known)
        elif cover:
            self._keep(replace(miss, behind=cover.alert_id), known)
        elif known and known.behind and self._may_catch_up(known, miss):
            self._keep(replace(miss, behind=known.behind), known)
        else:
            self._tell(miss, found, world)

    def _keep(self, miss: Miss, known: Miss | None) -> None:
        """Record without an alert."""
        if ledger.record(miss):
            self.open[miss.alert_id] = miss
            if known is None:
                self._note(miss, _note(miss))

    def _tell(self, miss: Miss, found: Diagnosis | None, world: World | None = None) -> None:
        """Record with an alert."""
        behind = blocked(miss.dataset, miss.interval, world) if world else ()
        miss = replace(
            miss,
            told_at=self.now,
            blocks=behind,
            severity=_gravest([self.seen.contracts[name] for name in (miss.dataset, *behind) if world]),
            link=_link(miss, found) if found else "",
        )
        if ledger.record(miss, messages(opening(self._story(miss)))):
            self.told += 1
            self.open[miss.alert_id] = miss
            self._note(miss, _note(miss))

    def _story(self, miss: Miss) -> Story:
        of_dataset = miss.kind is not Kind.HEARTBEAT
        return Story(
            alert_id=miss.alert_id,
            kind=miss.kind.value,
            severity=miss.severity,
            due=miss.due,
            opened_at=miss.told_at or miss.opened_at,
            dataset=miss.dataset if of_dataset else None,
            contract=self._contract(miss),
            interval=miss.interval if of_dataset else None,
            cause=miss.cause,
            detail=miss.detail or None,
            root=miss.root or None,
            blocks=miss.blocks,
            link=miss.link or None,
        )

    def _missed(self) -> list[Verdict]:
        """What is late, or will be as its run has failed: upstream first, oldest first."""
        found: list[Verdict] = []
        waiting: list[Verdict] = []
        for contract in self.seen.contracts.values():
            held = self.seen.held.get(contract.dataset)
            if held is None:
                continue
            verdicts = evaluate(contract, held, self._since(contract, Kind.READY), self.now, settings().start)
            found += [v for v in verdicts if v.state is State.MISSED]
            waiting += [v for v in verdicts if v.state is State.WAITING]
            fresh = freshness(contract, held, self._since(contract, Kind.FRESH), self.now)
            if fresh and fresh.state is State.MISSED and self.seen.catalog_answers:
                found.append(fresh)
        return sorted(
            [*found, *self._failed(waiting)], key=lambda v: (v.kind is Kind.FRESH, self._depth(v.dataset), v.interval)
        )

    def _failed(self, waiting: list[Verdict]) -> Iterator[Verdict]:
        """Of intervals that are not due, those whose run has failed: they will not come by themselves."""
        if not waiting:
            return
        failed = self.airflow.failed(min(v.interval.start for v in waiting))
        yield from (v for v in waiting if (dag_id(v.dataset), v.interval.start) in failed)

    def _since(self, contract: AnyContract, kind: Kind) -> datetime:
        return self.since.get((contract.dataset, kind), self.now)

    def _depth(self, dataset: str) -> int:
        """How many layers of datasets it is made from."""
        contract = self.seen.contracts.get(dataset)
        return 1 + max((self._depth(name) for name in contract.inputs), default=0) if contract else 0

    def _over(self, miss: Miss) -> Reason | None:
        """Why a miss is over, or None. Only a table that was seen tells."""
        if miss.kind is Kind.HEARTBEAT:
            beat = heartbeats.last(WATCH)
            return "recovered" if beat and beat.at > miss.interval.start else None
        if not self.seen.catalog_answers or miss.dataset not in self.seen.held or miss.dataset in self.seen.broken:
            return None
        return arrived_or_withdrawn(miss, self._contract(miss), self.seen.held[miss.dataset])

    def _may_catch_up(self, known: Miss, miss: Miss) -> bool:
        contract = self._contract(miss)
        due = contract.due(miss.interval) if contract else None
        freed = ledger.closed_at([known.behind]).get(known.behind)
        return may_catch_up(miss, freed, due - miss.interval.end if due else None, self.now)

    def _contract(self, miss: Miss) -> AnyContract | None:
        return self.seen.contracts.get(miss.dataset)

    def _note(self, miss: Miss, text: str) -> None:
        if miss.kind is Kind.READY:
            self.airflow.note(dag_id(miss.dataset), miss.interval, text)


def promises(contracts: Iterable[AnyContract]) -> dict[tuple[str, Kind], str]:
    """What each contract promises, in words that change when the promise does."""
    found: dict[tuple[str, Kind], str] = {}
    for contract in contracts:
        found[contract.dataset, Kind.READY] = contract.sla.told(contract.timezone)
        found[contract.dataset, Kind.FRESH] = f"{contract.sla.fresh_within}; {contract.sla.told(contract.timezone)}"
    return found


def _rolled_back(dataset: str, interval: Interval) -> bool:
    return bool(batches.undone_in(dataset, interval))


def _gravest(contracts: list[AnyContract]) -> Severity:
    """An alert is as grave as the gravest that waits for it; what no contract speaks of is critical."""
    return min((c.sla.severity for c in contracts), key=SEVERITIES.index, default="critical")


def _link(miss: Miss, found: Diagnosis) -> str:
    """The run in Airflow's UI, or its DAG where there is no run."""
    dag = f"{settings().airflow_url}/dags/{dag_id(miss.dataset)}"
    return f"{dag}/runs/{quote(found.run_id)}" if found.run_id else dag


def _note(miss: Miss) -> str:
    told = f"SLA missed: due {miss.due:%Y-%m-%d %H:%M} UTC; {miss.cause}"
    return told + (f": {miss.detail}" if miss.detail else "")


def _span(late: timedelta) -> str:
    minutes = max(0, int(late.total_seconds()) // 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
