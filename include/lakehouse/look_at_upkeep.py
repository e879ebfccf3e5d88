"""The part of a look that is about worn tables and late maintenance: recorded once, told once, closed when over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from lakehouse.alerts import Story, closing, messages, opening
from lakehouse.alerts.model import Reason
from lakehouse.causes import Cause
from lakehouse.contracts.model import AnyContract
from lakehouse.ledger import maintenance_turns
from lakehouse.ledger import troubles as ledger
from lakehouse.ledger.health import newest_concerns
from lakehouse.naming import maintenance_dag_id
from lakehouse.settings import settings
from lakehouse.upkeep import LATE, Trouble, Upkeep, troubles


@dataclass(frozen=True)
class Told:
    """How many alerts one look opened and closed."""

    opened: int = 0
    closed: int = 0


@dataclass(frozen=True)
class UpkeepLook:
    """One look, by contracts that can be read. Call it alone, as the look at SLAs is."""

    contracts: Mapping[str, AnyContract]
    broken: Collection[str]  # datasets whose contract cannot be read
    muted: Collection[str]
    since: Mapping[str, datetime]  # of datasets that hold data: when their promise of maintenance was first seen
    now: datetime

    def look(self) -> Told:
        """Close what is over, open what is new, and tell of what nobody has heard yet."""
        found = {(one.table, one.kind): one for one in troubles(self._seen())}
        known = {(one.table, one.kind): one for one in ledger.still_open()}
        over = [one for key, one in known.items() if key not in found and one.dataset not in self.broken]
        news = [known.get(key, one) for key, one in found.items() if key in known or not one.under_way]
        return Told(
            opened=sum(self._record(one) for one in news if one.told_at is None),
            closed=sum(self._close(one) for one in over),
        )

    def _seen(self) -> Upkeep:
        tables = [name for contract in self.contracts.values() for name in contract.tables]
        return Upkeep(
            contracts=self.contracts,
            measured=newest_concerns(tables),
            turns=maintenance_turns.last(),
            since=self.since,
            now=self.now,
            only_at_night=bool(settings().maintenance_window),
        )

    def _record(self, one: Trouble) -> bool:
        """Whether somebody is told."""
        if one.dataset in self.muted:
            ledger.record(one)
            return False
        one = replace(one, told_at=self.now)
        return ledger.record(one, messages(opening(self._story(one))))

    def _close(self, one: Trouble) -> bool:
        """Whether somebody is told, as somebody was of its beginning."""
        reason: Reason = "recovered" if one.dataset in self.contracts else "withdrawn"
        told = messages(closing(self._story(one), reason, self.now)) if one.told_at else []
        return ledger.close(one, told, self.now) and bool(told)

    def _story(self, one: Trouble) -> Story:
        contract = self.contracts.get(one.dataset)
        tier = contract.maintenance.tier if contract else "daily"
        return Story(
            alert_id=one.alert_id,
            kind="maintenance" if one.kind == LATE else "health",
            severity=one.severity,
            due=one.due,
            opened_at=one.told_at or one.opened_at,
            dataset=one.dataset,
            table=one.table,
            contract=contract,
            cause=Cause.MAINTENANCE_LATE if one.kind == LATE else Cause.TABLE_WORN,
            detail=one.detail,
            root=one.dataset,
            link=f"{settings().airflow_url}/dags/{maintenance_dag_id(tier)}",
        )
