"""Gold, from the rows of silver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from .reading import Row

CENT = Decimal("0.01")
LONGEST_GAP = timedelta(minutes=30)


class Sale(NamedTuple):
    """A row of gold.daily_sales."""

    order_date: date
    region: str | None
    category: str | None
    gmv: Decimal | None
    orders: int
    avg_basket: Decimal | None


class Session(NamedTuple):
    """A row of gold.click_sessions."""

    session_date: date
    user_id: int
    session_number: int
    started_at: datetime
    ended_at: datetime
    clicks: int
    pages: int


def daily_sales(orders: Iterable[Row]) -> list[Sale]:
    """By day, region and category, nulls first."""
    groups: dict[tuple[date, str | None, str | None], list[Decimal | None]] = defaultdict(list)
    for row in orders:
        if row["status"] != "cancelled":
            groups[row["ordered_at"].date(), row["region"], row["category"]].append(row["amount"])
    ordered = sorted(groups.items(), key=lambda group: [(part is not None, str(part)) for part in group[0]])
    return [Sale(*group, *totals(amounts)) for group, amounts in ordered]


def totals(amounts: list[Decimal | None]) -> tuple[Decimal | None, int, Decimal | None]:
    """Sum, number and average; no amount at all has no sum."""
    known = [amount for amount in amounts if amount is not None]
    if not known:
        return None, len(amounts), None
    gmv = sum(known, Decimal("0.00"))
    return gmv, len(amounts), (gmv / len(amounts)).quantize(CENT, ROUND_HALF_UP)


def click_sessions(clicks: Iterable[Row]) -> list[Session]:
    """A visitor's clicks of a day, parted where more than 30 minutes lie between two."""
    visitors: dict[tuple[date, int], list[Row]] = defaultdict(list)
    for row in clicks:
        visitors[row["clicked_at"].date(), row["user_id"]].append(row)
    return [
        session(*visitor, number, found)
        for visitor, rows in sorted(visitors.items())
        for number, found in enumerate(parted(rows), 1)
    ]


def parted(clicks: list[Row]) -> list[list[Row]]:
    """One visitor's clicks of a day, session by session."""
    sessions: list[list[Row]] = []
    for click in sorted(clicks, key=lambda click: click["clicked_at"]):
        if not sessions or click["clicked_at"] - sessions[-1][-1]["clicked_at"] > LONGEST_GAP:
            sessions.append([])
        sessions[-1].append(click)
    return sessions


def session(day: date, user: int, number: int, clicks: list[Row]) -> Session:
    """The row of one session; an event that came on two days is one click."""
    events, pages = {click["event_id"] for click in clicks}, {click["url"] for click in clicks}
    return Session(day, user, number, clicks[0]["clicked_at"], clicks[-1]["clicked_at"], len(events), len(pages))
