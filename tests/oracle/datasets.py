"""The four datasets of the sample shop: what include/contracts says of them, written out by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from .reading import Column, Row, Shape, boolean, currency, epoch_ms, integer, moment, money, trimmed
from .records import Fields

ISO = "yyyy-MM-dd'T'HH:mm:ssX"
ISO_MILLIS = "yyyy-MM-dd'T'HH:mm:ss.SSSX"
DAY_FIRST = "dd/MM/yyyy HH:mm"


@dataclass(frozen=True)
class Dataset:
    """A contract of silver and what its bronze says of files; `key` of events tells those that came twice."""

    delivers: Literal["changes", "snapshot", "events"]
    key: str
    shape: Shape
    days_may_repeat: bool = False


def accepted(*values: str) -> Callable[[Any], bool]:
    """The rule that a value is one of these."""
    return lambda value: value in values


def matches(pattern: str) -> Callable[[str], bool]:
    """The rule that a whole text matches a regular expression."""
    return lambda text: re.fullmatch(pattern, text) is not None


def is_delete(fields: Fields) -> bool:
    """Debezium's mark of a delete."""
    return bool(fields.get("op") == "d")


def email(text: str) -> str:
    """An address without blanks around it, in small letters."""
    return trimmed(text).lower()


def first_part(row: Row) -> str | None:
    """The first part of a click's path."""
    if row["url"] is None:
        return "home"
    found = re.match(r"/([^/?#]*)", row["url"])
    return (found[1] if found else "") or "home"


def created_first(row: Row) -> bool:
    """Nobody changes before being created; what is not known is not against it."""
    known = row["created_at"] is not None and row["updated_at"] is not None
    return not known or row["created_at"] <= row["updated_at"]


ORDERS = Dataset(
    "changes",
    "order_id",
    Shape(
        {
            "order_id": Column(("after.id", "before.id"), integer(64), required=True),
            "customer_id": Column(("after.customer_id",), integer(64), required=True),
            "product_id": Column(("after.product_id",), integer(64), required=True),
            "category": Column(("after.category",)),
            "region": Column(("after.region",)),
            "quantity": Column(("after.quantity",), integer(32), rules={"check": lambda value: value > 0}),
            "amount": Column(("after.amount",), money(12), currency, rules={"check": lambda value: value >= 0}),
            "status": Column(
                ("after.status",), required=True, rules={"accepted": accepted("new", "paid", "shipped", "cancelled")}
            ),
            "ordered_at": Column(("after.ordered_at",), moment(ISO, DAY_FIRST), required=True),
            "updated_at": Column(("ts_ms",), epoch_ms, required=True),
        },
        identity=("order_id", "updated_at"),
        deletes=is_delete,
        time="updated_at",
        late=timedelta(days=3),
    ),
)

CUSTOMERS = Dataset(
    "changes",
    "customer_id",
    Shape(
        {
            "customer_id": Column(("after.id", "before.id"), integer(64), required=True),
            "name": Column(("after.name",), clean=trimmed, required=True),
            "email": Column(
                ("after.email",),
                clean=email,
                required=True,
                rules={"matches": matches(r"[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]+")},
            ),
            "region": Column(("after.region",)),
            "segment": Column(
                ("after.segment",),
                required=True,
                rules={"accepted": accepted("business", "consumer", "member", "trial")},
            ),
            "created_at": Column(("after.created_at",), moment(ISO), required=True),
            "updated_at": Column(("ts_ms",), epoch_ms, required=True),
        },
        rules={"created_first": created_first},
        identity=("customer_id", "updated_at"),
        deletes=is_delete,
        time="updated_at",
        late=timedelta(days=3),
    ),
)

PRODUCTS = Dataset(
    "snapshot",
    "product_id",
    Shape(
        {
            "product_id": Column(("id",), integer(64), required=True),
            "name": Column(("name",), clean=trimmed, required=True),
            "category": Column(("category",)),
            "price": Column(("price",), money(10), currency, required=True, rules={"check": lambda value: value >= 0}),
            "active": Column(("active",), boolean, required=True),
        }
    ),
    days_may_repeat=True,
)

CLICKS = Dataset(
    "events",
    "event_id",
    Shape(
        {
            "event_id": Column(("event_id",), required=True),
            "user_id": Column(("user_id",), integer(64), required=True),
            "url": Column(("url",), required=True, rules={"matches": matches(r"/[!-~]*")}),
            "page": Column(derived=first_part),
            "clicked_at": Column(("at",), moment(ISO_MILLIS), required=True),
        }
    ),
)

DATASETS = {"orders": ORDERS, "customers": CUSTOMERS, "products": PRODUCTS, "clicks": CLICKS}
