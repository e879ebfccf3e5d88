"""The watch: looks at every dataset's SLA again and again, records what is missed, and tells on-call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from lakehouse import alerts, coverages
from lakehouse.airflow_facts import airflow_facts
from lakehouse.catalog import CatalogUnreachable
from lakehouse.contracts import contracts
from lakehouse.contracts.load import loaded
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Coverage
from lakehouse.ledger import batches, heartbeats, mutes
from lakehouse.ledger import sla as ledger
from lakehouse.ledger.database import LedgerUnreachable
from lakehouse.ledger.mutes import Mute
from lakehouse.ledger.outbox import Backlog
from lakehouse.look import WATCH, Looking, Seen
from lakehouse.look_at_upkeep import UpkeepLook
from lakehouse.settings import settings
from lakehouse.sla import Kind, Miss, State, Verdict, evaluate, freshness

log = logging.getLogger(__name__)
_LEDGER_FAILS = (LedgerUnreachable, SQLAlchemyError)
# A message that may be tried, and is not as another goes before it, must not make the watch spin.
SHORTEST_PAUSE = timedelta(seconds=5)


@dataclass(frozen=True)
class Look:
    """What one look found and did."""

    opened: int = 0
    closed: int = 0
    problems: tuple[str, ...] = ()
    backlog: tuple[Backlog, ...] = ()

    @property
    def wrong(self) -> frozenset[str]:
        """What could not be seen or told, a sentence each."""
        return frozenset((*self.problems, *_untold(self.backlog)))


@dataclass(frozen=True)
class Board:
    """Where every dataset stands."""

    verdicts: tuple[Verdict, ...]
    misses: dict[tuple[str, str, Kind], Miss]
    mutes: dict[str, Mute]


class NothingToWatch(LakehouseError):
    """A folder without contracts: more likely out of sight than out of use."""


def watch(once: bool = False, stop: threading.Event | None = None) -> None:
    """Look, wait, look again, until `stop` is set; what cannot be seen is said, and looked at again.

    With `once`, one look, and `LakehouseError` when something could not be seen or told.
    """
    stop = stop or threading.Event()
    said: frozenset[str] = frozenset()
    log.info("watching %d datasets, every %d s", len(contracts()), settings().watch_seconds)
    while True:
        seen = look(datetime.now(UTC), by="once" if once else WATCH)
        if once:
            if seen.wrong:
                raise LakehouseError("; ".join(sorted(seen.wrong)))
            return
        for sentence in sorted(seen.wrong - said):
            log.warning(sentence)
        if said and not seen.wrong:
            log.info("all datasets can be seen again, and all alerts were told")
        said = seen.wrong
        if stop.wait(_pause(seen.backlog)):
            return


def look(now: datetime, by: str = WATCH) -> Look:
    """Evaluate every SLA, record what is missed and what has arrived, deliver what must be told.

    Whoever looks, the watch or another, does the same; another also looks after the watch. What cannot be seen or done
    is a sentence among the problems, and keeps nothing else from being done.
    """
    problems = [f"not watched, its contract is broken: {problem}" for problem in loaded().problems]
    problems += alerts.problems()
    opened = closed = 0
    backlog: list[Backlog] = []
    try:
        if by == WATCH:
            heartbeats.beat(WATCH, now, timedelta(seconds=settings().watch_seconds))
        with ledger.alone():
            seen, unseen = _see()
            problems += unseen
            looking = Looking(seen, airflow_facts(), now)
            problems += [] if by == WATCH else _silence(looking, now)
            looking.close()
            looking.record()
            opened, closed = looking.told, looking.closed
            told = _upkeep(looking).look()
            opened, closed = opened + told.opened, closed + told.closed
    except (*_LEDGER_FAILS, ledger.Busy) as error:
        problems.append(_ledger_problem(error))
    except NothingToWatch as error:
        problems.append(str(error))
    except Exception as error:  # what was told before must still leave
        log.exception("the look failed")
        problems.append(f"the look failed: {_first_line(error)}")
    try:
        backlog = alerts.deliver(now)
    except _LEDGER_FAILS as error:
        problems.append(_ledger_problem(error))
    return Look(opened, closed, tuple(dict.fromkeys(problems)), tuple(backlog))


def _upkeep(looking: Looking) -> UpkeepLook:
    """The same look at how the tables are kept; maintenance is promised to those that hold something."""
    seen = looking.seen
    since = {dataset: moment for (dataset, kind), moment in looking.since.items() if kind is Kind.MAINTENANCE}
    filled = {name: moment for name, moment in since.items() if name in seen.held and seen.held[name].end is not None}
    return UpkeepLook(seen.contracts, seen.broken, looking.muted, filled, looking.now)


def _silence(looking: Looking, now: datetime) -> Iterator[str]:
    """A sentence, and a miss, where the watch has left no sign of life for too long."""
    beat = heartbeats.last(WATCH)
    if beat and beat.overdue(now):
        looking.watch_is_silent(beat)
        yield f"the watch has not looked since {beat.at:%Y-%m-%d %H:%M:%S} UTC; see `lakehouse logs watch`"


def board(now: datetime) -> Board:
    """For each dataset its newest interval, whether its table is stale, and every one that is missed.

    Nothing is recorded.
    """
    try:
        agreed, open_misses, muted = ledger.agreed(), ledger.open_misses(), mutes.mutes(now)
    except _LEDGER_FAILS as error:
        raise LakehouseError(_ledger_problem(error)) from error
    held, problems, _ = _coverages([c.dataset for c in contracts()])
    if problems:
        raise LakehouseError("; ".join(problems))
    rows: list[Verdict] = []
    for contract in contracts():
        mine = held[contract.dataset]
        since = {kind: agreed.get((contract.dataset, kind), now) for kind in Kind}
        verdicts = evaluate(contract, mine, since[Kind.READY], now, settings().start)
        rows += [v for n, v in enumerate(verdicts) if n == 0 or v.state is State.MISSED]
        fresh = freshness(contract, mine, since[Kind.FRESH], now)
        rows += [fresh] if fresh and fresh.state is State.MISSED else []
    return Board(tuple(rows), {(m.dataset, str(m.interval), m.kind): m for m in open_misses}, muted)


def _see() -> tuple[Seen, list[str]]:
    """The tables as the catalog shows them, else as the ledger knows them; and what could not be seen."""
    known = {c.dataset: c for c in contracts()}
    if not known and not loaded().problems:
        raise NothingToWatch(f"there is no contract in {settings().contracts}: what was late is taken as late still")
    wanted = {*known, *(m.dataset for m in ledger.open_misses() if m.kind is not Kind.HEARTBEAT)}
    held, problems, unseen = _coverages(sorted(wanted))
    published = batches.coverages() if unseen else {}
    held |= {name: published.get(name, Coverage()) for name in unseen}
    broken = frozenset(f"{p.file.parent.name}.{p.file.stem}" for p in loaded().problems)
    return Seen(known, broken, held, frozenset(unseen)), problems


def _coverages(datasets: Sequence[str]) -> tuple[dict[str, Coverage], list[str], list[str]]:
    """What each table holds, a sentence for each trouble, and the tables that could not be seen."""
    found: dict[str, Coverage] = {}
    problems: list[str] = []
    for dataset in datasets:
        try:
            found[dataset] = coverages.held(dataset)
        except coverages.CatalogSilent as error:
            # The others would only wait for the same time-out.
            return found, [*problems, str(error)], [name for name in datasets if name not in found]
        except CatalogUnreachable as error:
            problems.append(str(error))
    return found, problems, [name for name in datasets if name not in found]


def _ledger_problem(error: LakehouseError | SQLAlchemyError) -> str:
    if isinstance(error, LakehouseError):
        return str(error)
    url = make_url(settings().ledger_url.get_secret_value())
    return f"the ledger at {url.host}:{url.port} does not serve: {_first_line(getattr(error, 'orig', None) or error)}"


def _untold(backlog: Iterable[Backlog]) -> Iterator[str]:
    """A sentence for each channel that cannot be told. What another process is sending just now is no problem."""
    for waiting in backlog:
        unused = (
            "" if waiting.channel in alerts.channels() else f"the channel {waiting.channel} has no address any more"
        )
        if waiting.error or unused:
            yield f"{waiting.messages} alert(s) wait: {unused or waiting.error}"


def _pause(backlog: Iterable[Backlog]) -> float:
    """Until the next look: the interval of the settings, or sooner where an alert may be tried again."""
    longest = timedelta(seconds=settings().watch_seconds)
    in_use = alerts.channels()
    tries = (max(b.next_try_at - datetime.now(UTC), SHORTEST_PAUSE) for b in backlog if b.error and b.channel in in_use)
    return min((longest, *tries)).total_seconds()


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
