"""The watch: looks at every dataset's SLA again and again, records what is missed, and tells on-call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import requests
from pyiceberg.exceptions import RESTError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from lakehouse import alerts, catalog
from lakehouse.contracts import AnyContract, contracts
from lakehouse.contracts.load import loaded
from lakehouse.errors import LakehouseError
from lakehouse.intervals import Coverage
from lakehouse.ledger import sla as ledger
from lakehouse.ledger.database import LedgerUnreachable
from lakehouse.ledger.outbox import Backlog
from lakehouse.settings import settings
from lakehouse.sla import Miss, State, Terms, Verdict, arrived_or_withdrawn, evaluate

log = logging.getLogger(__name__)
_LEDGER_FAILS = (LedgerUnreachable, SQLAlchemyError)


@dataclass(frozen=True)
class Look:
    """What one look found and did."""

    opened: int = 0
    closed: int = 0
    problems: tuple[str, ...] = ()
    backlog: tuple[Backlog, ...] = ()


def watch(once: bool = False, stop: threading.Event | None = None) -> None:
    """Look, wait, look again, until `stop` is set; what cannot be seen is said, and looked at again.

    With `once`, one look, and `LakehouseError` when something could not be seen or told.
    """
    stop = stop or threading.Event()
    said: frozenset[str] = frozenset()
    log.info("watching %d datasets, every %d s", len(contracts()), settings().watch_seconds)
    while True:
        seen = look(datetime.now(UTC))
        wrong = frozenset((*seen.problems, *_untold(seen.backlog)))
        if once:
            if wrong:
                raise LakehouseError("; ".join(sorted(wrong)))
            return
        for sentence in sorted(wrong - said):
            log.warning(sentence)
        if said and not wrong:
            log.info("all datasets can be seen again, and all alerts were told")
        said = wrong
        if stop.wait(_pause(seen.backlog)):
            return


def look(now: datetime) -> Look:
    """Evaluate every SLA, record what is missed and what has arrived, deliver what must be told."""
    opened = closed = 0
    backlog: list[Backlog] = []
    problems = [f"not watched, its contract is broken: {problem}" for problem in loaded().problems]
    try:
        held, unseen = _coverages({c.dataset for c in contracts()} | {m.dataset for m in ledger.open_misses()})
        problems += unseen
        opened, closed = _record(held, now)
        backlog = alerts.deliver(now)
    except _LEDGER_FAILS as error:
        problems.append(_ledger_problem(error))
    return Look(opened, closed, tuple(problems), tuple(backlog))


def board(now: datetime) -> list[Verdict]:
    """For each dataset its newest interval, and every one that is missed. Nothing is recorded."""
    try:
        agreed = ledger.terms()
    except _LEDGER_FAILS as error:
        raise LakehouseError(_ledger_problem(error)) from error
    held, problems = _coverages(c.dataset for c in contracts())
    if problems:
        raise LakehouseError("; ".join(problems))
    rows: list[Verdict] = []
    for contract in contracts():
        within = contract.sla.ready_within
        known = agreed.get(contract.dataset, Terms(within, since=now))
        verdicts = evaluate(contract, held[contract.dataset], Terms(within, known.since), now, settings().start)
        rows += [v for n, v in enumerate(verdicts) if n == 0 or v.state is State.MISSED]
    return rows


def _record(held: dict[str, Coverage], now: datetime) -> tuple[int, int]:
    """Open and close misses of the datasets that could be seen; how many of each."""
    known = {c.dataset: c for c in contracts()}
    agreed = ledger.agree({name: c.sla.ready_within for name, c in known.items()}, now)
    opened = sum(_open(known[name], held[name], agreed[name], now) for name in known if name in held)
    closed = sum(_close(m, known, held[m.dataset], now) for m in ledger.open_misses() if m.dataset in held)
    return opened, closed


def _open(contract: AnyContract, held: Coverage, terms: Terms, now: datetime) -> int:
    missed = [v for v in evaluate(contract, held, terms, now, settings().start) if v.state is State.MISSED]
    misses = [Miss(v.dataset, v.interval, v.due, opened_at=now) for v in reversed(missed)]
    return sum(ledger.open_miss(miss, alerts.opened(miss, contract).messages()) for miss in misses)


def _close(miss: Miss, known: dict[str, AnyContract], held: Coverage, now: datetime) -> bool:
    contract = known.get(miss.dataset)
    if contract is None and _is_broken(miss.dataset):
        return False
    reason = arrived_or_withdrawn(miss, contract, held)
    return reason is not None and ledger.close_miss(miss, alerts.closed(miss, contract, reason, now).messages(), now)


def _is_broken(dataset: str) -> bool:
    """Whether the dataset has a contract that cannot be read: nobody has withdrawn it."""
    return any(f"{p.file.parent.name}.{p.file.stem}" == dataset for p in loaded().problems)


def _coverages(datasets: Iterable[str]) -> tuple[dict[str, Coverage], list[str]]:
    """What each table holds, and a sentence for each that cannot be seen. A table that is not there holds nothing."""
    found: dict[str, Coverage] = {}
    problems: list[str] = []
    for dataset in sorted(datasets):
        try:
            found[dataset] = catalog.coverage(catalog.table(dataset))
        except (catalog.CatalogUnreachable, requests.RequestException):
            # The others would only wait for the same time-out.
            return found, [*problems, f"the catalog at {settings().catalog_uri} does not answer"]
        except (RESTError, ValueError) as error:
            problems.append(f"{dataset} cannot be seen: {_first_line(error)}")
    return found, problems


def _ledger_problem(error: LedgerUnreachable | SQLAlchemyError) -> str:
    if isinstance(error, LedgerUnreachable):
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
    tries = (b.next_try_at - datetime.now(UTC) for b in backlog if b.error)
    return max(1.0, min((longest, *tries)).total_seconds())


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
