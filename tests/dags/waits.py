"""Waits as the triggerer has them, for tests without one."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import Any

from tests.dags.runs import DAY

LANDING = {
    "path": "orders/{interval:%Y-%m-%d}/",
    "timezone": "UTC",
    "ready": {"marker": "_SUCCESS"},
    "interval": DAY,
}


def received(trigger: Any) -> Any:
    """The trigger as the triggerer makes it from what Airflow's database holds."""
    place, arguments = trigger.serialize()
    module, _, kind = place.rpartition(".")
    return getattr(import_module(module), kind)(**json.loads(json.dumps(arguments)))


def first_event(trigger: Any) -> Any:
    async def event() -> Any:
        return await anext(aiter(trigger.run()))

    return asyncio.run(event()).payload
