"""A contract that promises something, for tests of what is told when it does not keep it."""

from __future__ import annotations

from datetime import date

from lakehouse.contracts.model import Bronze


def contract(**given: object) -> Bronze:
    base = {
        "dataset": "bronze.orders",
        "description": "Orders.",
        "owner": "commerce",
        "start": date(2026, 1, 1),
        "source": {"kind": "files", "path": "orders/{interval:%Y-%m-%dT%H}/"},
        "sla": {"ready_within": "2h"},
        "retention": {"snapshots": "7d"},
        "maintenance": {},
    }
    return Bronze.model_validate({**base, **given})
