"""A shop's landing folders with a lifetime, for tests of what goes from them and what comes after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date

import pytest

from lakehouse import landing
from lakehouse.catalog import catalog, table
from lakehouse.contracts import Bronze
from lakehouse.maintenance.step import Plan
from lakehouse.naming import CLEARED
from lakehouse.settings import settings
from lakehouse.steps import Handover
from lakehouse.store import client
from tests.stack.shop import RunJob, Shop, in_session, interval
from tests.stack.worn import in_days, keep, planned

DAY, NEXT = date(2026, 1, 1), date(2026, 1, 2)
READY = "ready: {marker: _SUCCESS}"
FILES = {"a.jsonl": b'{"id": 1}\n{"id": 2}\n', "sub/b.jsonl": b'{"id": 3}\n'}


def no_spark(job: object) -> None:
    raise AssertionError(f"no job was needed, and one ran: {job}")


@dataclass
class Landing:
    """A shop's landing folders; there are no contracts but its own."""

    shop: Shop
    job: RunJob
    text: str  # of its contract
    others: list[str] = field(default_factory=list)

    def say(self, source: str, dataset: str = "") -> None:
        """Write the contract, or that of another dataset with the same landing folder, with this in its source."""
        name = dataset or self.shop.bronze
        text = self.text.replace(f"dataset: {self.shop.bronze}", f"dataset: {name}").replace(READY, source)
        (self.shop.folder / f"{name.replace('.', '/')}.yaml").write_text(text)
        self.others += [dataset] if dataset else []

    @property
    def contract(self) -> Bronze:
        found = self.shop.contract(self.shop.bronze)
        assert isinstance(found, Bronze)
        return found

    def run(self, day: date = DAY, dataset: str = "") -> Handover | None:
        return self.shop.run(dataset or self.shop.bronze, day, self.job)

    def plan(self, days: int = 2) -> Plan:
        return planned(self.contract, in_days(days))

    def clear(self, days: int = 2) -> list[str]:
        """What maintenance does in so many days, if that is to clear landing."""
        return keep(self.contract, no_spark, "clear_landing", now=in_days(days))

    def there(self, day: date = DAY) -> dict[str, bytes]:
        """The day's folder, by names, without what says that files went."""
        prefix = self.contract.landing_prefix(interval(day).start)
        found = {key.removeprefix(prefix): body for key, body in self.shop.landed(day).items()}
        return {name: body for name, body in found.items() if name != CLEARED}

    def versions(self, name: str, day: date = DAY) -> list[bytes]:
        """The bytes of all versions of a file, newest first."""
        key = self.contract.landing_prefix(interval(day).start) + name
        found = client().list_object_versions(Bucket="landing", Prefix=key).get("Versions", [])
        return [client().get_object(Bucket="landing", Key=key, VersionId=o["VersionId"])["Body"].read() for o in found]

    def archived(self) -> dict[str, bytes]:
        """What is in the archive, by batch and name."""
        prefix = f"_archive/{self.shop.bronze}/"
        found = client().list_objects_v2(Bucket="landing", Prefix=prefix).get("Contents", [])
        bodies = {o["Key"]: client().get_object(Bucket="landing", Key=o["Key"])["Body"].read() for o in found}
        folder = self.contract.landing_prefix(interval(DAY).start)
        return {key.removeprefix(prefix).replace(f"/{folder}", " "): body for key, body in bodies.items()}

    def waits(self, day: date = DAY) -> str | None:
        return landing.missing(self.contract, interval(day).start, interval(day).end)

    def put(self, name: str, body: bytes, day: date = DAY) -> None:
        self.shop.put([(self.contract.landing_prefix(interval(day).start) + name, body)])


@pytest.fixture
def folders(shop, spark, monkeypatch) -> Iterator[Landing]:
    file = shop.folder / f"{shop.bronze.replace('.', '/')}.yaml"
    found = Landing(shop, in_session(spark), file.read_text())
    found.say(f"{READY}\n  archive_after: 1d")
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(shop.folder))
    settings.cache_clear()
    yield found
    monkeypatch.undo()
    settings.cache_clear()
    for name in found.others:
        if table(name) is not None:
            catalog().purge_table(name)
