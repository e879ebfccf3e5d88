"""What tests of landing files share: a contract, files of it as the ledger knows them, and versions of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from lakehouse.contracts.model import Bronze
from lakehouse.intervals import Interval
from lakehouse.landing_versions import Version
from lakehouse.ledger.landing_gone import Due
from lakehouse.ledger.taken_files import Took
from lakehouse.maintenance.step import Step
from tests.unit.contract_folder import BRONZE, LAYERS

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
OF = Interval(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
FOLDER = "events/2026-01-01/"
KEY = f"{FOLDER}a.jsonl"


def contract(dataset: str = "bronze.events", path: str = "events/{interval:%Y-%m-%d}/", **source: Any) -> Bronze:
    given = yaml.safe_load(LAYERS)["bronze"] | yaml.safe_load(BRONZE) | {"dataset": dataset}
    return Bronze.model_validate({**given, "source": {"kind": "files", "path": path, **source}})


def due(etag: str, key: str = KEY, batch: str = "b1", size: int = 3, malformed: int | None = 0) -> Due:
    return Due(f"s3://landing/{key}", etag, size, batch, OF, OF.end, malformed)


def took(etag: str, batch: str = "b1", size: int = 3) -> Took:
    return Took(etag, size, batch)


def version(etag: str, *, current: bool = False, key: str = KEY, name: str = "", size: int = 3) -> Version:
    return Version(key, name or f"v-{etag}", etag, size, current)


def clearing_step(**given: Any) -> Step:
    return Step(
        table="bronze.events",
        **{"operation": "clear_landing", "reason": "a test", "does": "", "taken_before": NOW, "files": 9, **given},
    )
