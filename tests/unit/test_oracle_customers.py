"""The oracle is right about customers: how a line is read, and the rules that it breaks."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.oracle import Oracle
from tests.unit.oracle_shop import DAY, broken, put


def customer(number: int, hour: float = 1, op: str = "u", **after: Any) -> str:
    """A line of a customer changed at an hour of the first day."""
    state = {"id": number, "name": "Ann", "email": "ann@example.com", "region": "north", "segment": "trial"}
    state |= {"created_at": "2025-12-01T00:00:00Z", **after}
    images = {"before": state, "after": None} if op == "d" else {"before": None, "after": state}
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
    return json.dumps({**images, "op": op, "ts_ms": int(at.timestamp() * 1000)})


def test_oracle_reads_one_customer() -> None:
    shop = Oracle("customers")
    shop.run(DAY, put("customers", a=[customer(7, name=" Ann ", email=" Ann+1@Example.COM ")]))
    assert shop.silver == {
        7: {
            "customer_id": 7,
            "name": "Ann",
            "email": "ann+1@example.com",
            "region": "north",
            "segment": "trial",
            "created_at": datetime(2025, 12, 1, tzinfo=UTC),
            "updated_at": datetime(2026, 1, 1, 1, tzinfo=UTC),
        }
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (customer(1, email="nobody.example.com"), ("email.matches",)),
        (customer(1, email="a@b.de\n"), ("email.matches",)),
        (customer(1, email=None, segment="??"), ("email.required", "segment.accepted")),
        (customer(1, created_at="2026-01-01T01:00:01Z"), ("rule.created_first",)),
        (customer(1, created_at="soon"), ("created_at.type",)),
        (customer(1, email="a@b", created_at="2026-01-01T01:00:00Z"), ("email.matches",)),
        (customer(1, -49), ("record.late",)),
        ('{"op": "u", "op": "d"}', ("record.malformed",)),
    ],
)
def test_oracle_names_the_rules_that_a_customer_breaks(line: str, expected: tuple[str, ...]) -> None:
    assert broken("customers", line) == [expected]


def test_a_delete_is_read_in_its_key_and_its_time_only() -> None:
    assert broken("customers", customer(1, op="d", email="?", created_at="2099-01-01T00:00:00Z")) == []
