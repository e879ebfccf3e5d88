"""A step of maintenance on a table in files, without Spark and without a ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.table import StaticTable

from lakehouse.contracts import contract
from lakehouse.health import health
from lakehouse.jobs import Call, Maintained
from lakehouse.ledger import leases
from lakehouse.maintenance import acts, carried_out, proof, taken
from lakehouse.maintenance.step import Step
from lakehouse.plan import Attempt

DAY = timedelta(days=1)
ORDERS = contract("silver.orders")
ATTEMPT = Attempt("a run", 1)


def step(operation: Any, **call: Any) -> Step:
    asked = Call(procedure=operation, **call)
    return Step(table="silver.orders", operation=operation, reason="a test", does="", call=asked)


def a_while_later() -> datetime:
    return datetime.now(UTC) + 30 * DAY


class Taking:
    """A step on a table in files: what is asked of Spark, what is kept in the ledger, and when the lease is held."""

    def __init__(self, monkeypatch, found) -> None:
        self.asked: list[Step] = []
        self.outcomes: list[str] = []
        self.kept: dict[str, Any] = {}
        self.answers: list[Maintained] = []
        self.rows = 0
        self.held = False
        self.measured_under_lease: list[str] = []
        self.wrong: list[Exception | None] = []
        self.missing: Exception | None = None
        for name, instead in {"_keep": lambda *_: None, "_tidy": lambda *_: [], "act": self.act}.items():
            monkeypatch.setattr(carried_out, name, instead)
        for module in (carried_out, taken):
            monkeypatch.setattr(module, "health", lambda *given: self.noted("health") or health(*given))
        monkeypatch.setattr(proof, "table", lambda _: StaticTable.from_metadata(found.refresh().metadata_location))
        monkeypatch.setattr(proof, "check_files", self.check_files)
        monkeypatch.setattr(taken.log, "begin", self.begin)
        monkeypatch.setattr(taken.log, "close", self.close)
        monkeypatch.setattr(taken.measures, "record", lambda *_: None)
        monkeypatch.setattr(leases, "acquire", lambda *_, **__: setattr(self, "held", True) or True)
        monkeypatch.setattr(leases, "release", lambda *_: setattr(self, "held", False))
        monkeypatch.setattr(leases, "renew", lambda *_: True)

    def take(self, one: Step, now: datetime) -> None:
        carried_out._take(ORDERS, one, acts.Tools("silver.orders", ATTEMPT, print, 0), lambda: now)

    def carry(self, steps: list[Step], now: datetime, contract: Any = ORDERS, **how: Any) -> list[str]:
        return list(carried_out.carry_out(contract, steps, ATTEMPT, print, **{"clock": lambda: now, **how}))

    def take_lease(self) -> bool:
        self.held = True
        return True

    def begin(self, *_: object) -> int:
        self.rows += 1
        return self.rows

    def close(self, _row: int, outcome: str, *_: object, **kept: Any) -> None:
        self.outcomes.append(outcome)
        self.kept = kept

    def act(self, _contract: object, one: Step, *_: object) -> Maintained:
        assert self.held, "a step is taken under the lease"
        self.asked.append(one)
        if self.wrong and (error := self.wrong.pop(0)):
            raise error
        return self.answers.pop(0) if self.answers else Maintained(counters={})

    def check_files(self, *_: object) -> int:
        self.noted("files")
        if self.missing:
            raise self.missing
        return 0

    def noted(self, what: str) -> None:
        if self.held:
            self.measured_under_lease.append(what)
