"""Every guard of maintenance, switched off: without it something would be lost that it is there for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from lakehouse.catalog import catalog
from lakehouse.jobs import Call
from lakehouse.ledger import maintenance as log
from lakehouse.maintenance import acts, carried_out
from lakehouse.maintenance.carried_out import carry_out
from lakehouse.maintenance.orphans import refusal
from lakehouse.maintenance.reachable import check, listed
from lakehouse.maintenance.step import Operation, Step
from lakehouse.pins import pin, pins
from lakehouse.plan import Attempt
from lakehouse.retention import VersionsBusy, versions_at_rest
from spark_jobs.session import connect
from tests.stack.harness import eventually
from tests.stack.proxy import proxied
from tests.stack.shop import in_session
from tests.stack.tables import loaded
from tests.stack.worn import DAYS, UPDATES, Worn, in_days, keep, key_in, put_aged, worn_table

ON_AND_OFF = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "off"])


@pytest.fixture
def worn(spark) -> Iterator[Worn]:
    for found in worn_table(spark):
        found.wear(spark, files=2)
        yield found


def versions(worn: Worn) -> list[int]:
    return [one.snapshot_id for one in loaded(worn.name).metadata.snapshots]


def asked(worn: Worn, operation: Operation, **call: Any) -> Step:
    """A step as no plan would make it."""
    made = Call(procedure=operation, **call)
    return Step(table=worn.name, operation=operation, reason="a test", does="", call=made)


def take(worn: Worn, step: Step, run: Callable[[Any], None]) -> None:
    list(carry_out(worn.contract(), [step], Attempt(f"test/{uuid4().hex}", 1), run))


def expiring(worn: Worn, catalog_uri: str) -> Thread:
    """Maintenance that expires what it may, through another address of the catalog."""
    contract = worn.contract(retention={"snapshots": "0d", "keep_last": 1})

    def work() -> None:
        spark = connect(str(uuid4()))
        try:
            spark.conf.set("spark.sql.catalog.lake.uri", catalog_uri)
            keep(contract, in_session(spark), "expire_snapshots", now=in_days(1))
        finally:
            spark.stop()

    return Thread(target=work, daemon=True)


@ON_AND_OFF
def test_a_pin_that_is_set_while_its_version_expires_is_refused_or_kept(worn, stack, monkeypatch, guarded):
    """The commit of the expiry is on its way, made from a table without the pin: it drops the pin, and says nothing."""
    monkeypatch.setattr("lakehouse.pins.versions_at_rest", impatient if guarded else lambda *_: nullcontext())
    oldest = versions(worn)[0]
    with proxied(stack.catalog_uri, UPDATES["expire_snapshots"], "held") as proxy:
        thread = expiring(worn, proxy.uri)
        thread.start()
        eventually(proxy.struck.is_set, 120, "the expiry commits")
        told = ""
        try:
            pin(worn.name, "training", None, at=str(oldest), with_inputs=False)
        except VersionsBusy as busy:
            told = str(busy)
    thread.join(120)
    assert oldest not in versions(worn)
    assert pins([worn.name]) == [], "it is gone, whatever was said"
    assert told == (f"old versions of {worn.name} are being expired just now; try again in a minute" if guarded else "")


def impatient(name: str, owner: str, attempt: str) -> Any:
    return versions_at_rest(name, owner, attempt, patience=0.5)


def test_an_expiry_waits_for_a_pin_that_is_being_set(worn, spark, monkeypatch):
    monkeypatch.setattr(acts, "versions_at_rest", impatient)
    contract, before = worn.contract(retention={"snapshots": "0d", "keep_last": 1}), versions(worn)
    with versions_at_rest(worn.name, "pin/a", "pin/a"), pytest.raises(VersionsBusy):
        keep(contract, in_session(spark), "expire_snapshots", now=in_days(1))
    assert versions(worn) == before
    keep(contract, in_session(spark), "expire_snapshots", now=in_days(1))
    assert len(versions(worn)) < len(before)


@ON_AND_OFF
def test_whatever_an_old_plan_says_what_was_main_today_stays_and_a_tag_keeps_its_version(
    worn, spark, monkeypatch, guarded
):
    if not guarded:
        monkeypatch.setattr(carried_out, "narrowed", lambda step, *_: step)
    first, second, *_, last = versions(worn)
    pin(worn.name, "training", None, at=str(second), with_inputs=False)
    take(worn, asked(worn, "expire_snapshots", older_than=datetime.now(UTC), retain_last=1), in_session(spark))
    left = versions(worn)
    assert {second, last} <= set(left)
    assert (first in left) is guarded
    assert check(worn.name, loaded(worn.name)) > 0


@ON_AND_OFF
def test_files_of_a_write_that_ignores_the_lease_and_is_not_done_stay(worn, spark, monkeypatch, guarded):
    """It has been at work for two days: younger than the floor, older than what Iceberg itself refuses."""
    if not guarded:
        monkeypatch.setattr(carried_out, "narrowed", lambda step, *_: step)
    put_aged(key_in(worn, "in-flight.parquet"), 2)
    limit = datetime.now(UTC) - timedelta(hours=25)
    take(worn, asked(worn, "remove_orphan_files", older_than=limit, dry_run=True), in_session(spark))
    there = f"s3://lake/{key_in(worn, 'in-flight.parquet')}" in set(listed(loaded(worn.name).location()))
    assert there is guarded
    worn.holds_its_rows()


def test_only_files_that_were_listed_and_looked_at_again_are_removed(worn, spark):
    """One that is as old, and that no version names, comes between the list and the removal."""
    put_aged(key_in(worn, "listed.parquet"), 10)
    jobs: list[Call] = []

    def run(job: Any) -> None:
        jobs.append(job.call)
        if not job.call.dry_run:
            put_aged(key_in(worn, "unlisted.parquet"), 10)
        in_session(spark)(job)

    (line,) = keep(worn.contract(), run, "remove_orphan_files")
    assert "1 files removed" in line
    there = {path.rsplit("/", 1)[1] for path in listed(loaded(worn.name).location())}
    assert "unlisted.parquet" in there
    assert "listed.parquet" not in there
    assert [[path.rsplit("/", 1)[1] for path, _ in call.files] for call in jobs] == [[], ["listed.parquet"]]
    worn.holds_its_rows()


@pytest.fixture
def of_format_2(spark) -> Iterator[Worn]:
    """A table that PyIceberg can write to."""
    for found in worn_table(spark, version=2):
        found.wear(spark, files=1)
        yield found


def test_a_file_of_the_list_that_a_version_names_by_then_stays(of_format_2, spark):
    """Somebody who knows of no lease commits it after it was looked at: Iceberg looks once more."""
    key = key_in(of_format_2, "named.parquet")
    put_aged(key, 10)
    found = loaded(of_format_2.name)

    def run(job: Any) -> None:
        if not job.call.dry_run:
            name_file(found, f"s3://lake/{key}")
        in_session(spark)(job)

    (line,) = keep(of_format_2.contract(), run, "remove_orphan_files")
    assert "0 files removed" in line
    assert f"s3://lake/{key}" in set(listed(found.location()))


def name_file(found: Table, path: str) -> None:
    day = Record((DAYS[0] - date(1970, 1, 1)).days)
    one = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=day,
        record_count=1,
        file_size_in_bytes=11,
    )
    one.spec_id = found.spec().spec_id
    with found.transaction() as change, change.update_snapshot().fast_append() as added:
        added.append_data_file(one)


@pytest.mark.parametrize("setting", ["write.data.path", "write.metadata.path", "write.object-storage.path"])
def test_a_folder_into_which_a_table_of_a_deep_namespace_writes_is_never_swept(worn, setting):
    above = f"sandbox_{uuid4().hex[:8]}"
    name, folder = f"{above}.deep.other", loaded(worn.name).location()
    catalog().create_namespace(above)
    catalog().create_namespace(f"{above}.deep")
    assert refusal(worn.name, loaded(worn.name)) == ""
    catalog().create_table(name, loaded(worn.name).schema(), properties={setting: f"{folder}/theirs"})
    try:
        assert f"is shared with {name}" in refusal(worn.name, loaded(worn.name))
    finally:
        catalog().drop_table(name)
        catalog().drop_namespace(f"{above}.deep")
        catalog().drop_namespace(above)


def test_what_was_refused_counts_as_looked_for_and_a_failed_look_for_a_day(worn):
    operation, measured = "remove_orphan_files", worn.health()
    for outcome, hours, counts in (
        ("begun", 0, False),
        ("failed: Spark is gone", 0, False),
        ("put off: somebody is writing", 0, False),
        ("failed to look: Spark is gone", 25, False),
        ("failed to look: Spark is gone", 23, True),
        ("refused: its folder is shared", 24 * 300, True),
        (log.DONE, 24 * 300, True),
    ):
        row = log.begin(worn.name, operation, "a test", measured, 50)
        log.close(row, outcome, 1.0, at=datetime.now(UTC) - timedelta(hours=hours))
        assert (operation in log.last_done(worn.name)) is counts, outcome
        assert log.was_put_off(worn.name, operation) is outcome.startswith("put off")
        log.close(row, "failed", 1.0)
