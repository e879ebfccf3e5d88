"""Leases and batches in the real ledger."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text

from lakehouse import naming
from lakehouse.batch import DISCARDED, PUBLISHED, Batch, Corrections, InputFile, TableWrite, TakenFile
from lakehouse.catalog import catalog
from lakehouse.gates.checks import GateResult
from lakehouse.intervals import Interval
from lakehouse.ledger import batches, database, gates, leases, taken_files
from lakehouse.publish import publish
from lakehouse.settling import settle
from tests.stack import tables

DAY = Interval(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
FILE = InputFile(uri="s3://landing/x/1.json", etag="abc", bytes=3)
TAKEN = TakenFile(**FILE.model_dump(), sha256="s1", rows=1)


@pytest.fixture
def dataset(stack) -> str:
    return f"bronze.ledger_{uuid4().hex[:8]}"


@pytest.fixture
def made(dataset) -> Iterator[str]:
    tables.make(dataset)
    yield dataset
    catalog().drop_table(dataset)


def batch(dataset: str, *writes: TableWrite) -> Batch:
    return Batch(
        batch_id=naming.batch_id(dataset, DAY, "inputs"),
        dataset=dataset,
        interval_start=DAY.start,
        interval_end=DAY.end,
        fingerprint="inputs",
        contract_version="1",
        run="a",
        attempt="a#1",
        writes=writes,
    )


def state(dataset: str) -> str:
    return batches.recent(dataset)[0].state


def test_only_one_run_holds_a_lease(dataset):
    assert leases.acquire(dataset, "a", "a#1")
    assert not leases.acquire(dataset, "b", "b#1")
    leases.release(dataset, "a")
    assert leases.acquire(dataset, "b", "b#1")


def test_a_later_try_takes_over_from_an_earlier_one_which_then_cannot_renew(dataset):
    assert leases.acquire(dataset, "a", "a#1")
    assert leases.acquire(dataset, "a", "a#2")
    assert not leases.renew(dataset, "a", "a#1")
    assert leases.renew(dataset, "a", "a#2")


def test_an_expired_lease_is_free(dataset):
    assert leases.acquire(dataset, "a", "a#1", ttl=timedelta(seconds=-1))
    assert leases.holder(dataset) is None
    assert leases.acquire(dataset, "b", "b#1")


def test_nobody_releases_somebody_elses_lease(dataset):
    leases.acquire(dataset, "a", "a#1")
    leases.release(dataset, "b")
    leases.release(dataset, "a", "a#0")
    assert not leases.acquire(dataset, "a", "a#0", take_over=False)
    held = leases.holder(dataset)
    assert held is not None
    assert held.owner == "a"


def take(dataset: str, batch_id: str, *files: TakenFile) -> None:
    """A published batch that took files."""
    batches.intend(batch(dataset).model_copy(update={"batch_id": batch_id}), files)
    batches.settle(batch_id, PUBLISHED)


def test_a_file_counts_as_taken_only_when_its_batch_is_published(dataset):
    batches.intend(batch(dataset), [TAKEN])
    assert taken_files.untaken(dataset, [FILE]) == [FILE]
    batches.settle(batch(dataset).batch_id, PUBLISHED)
    assert taken_files.untaken(dataset, [FILE]) == []


def test_a_file_with_other_bytes_than_it_was_taken_with_is_a_correction_also_when_it_goes_back(dataset):
    first, second = f"{dataset}-1", f"{dataset}-2"
    corrected = FILE.model_copy(update={"etag": "def"})
    take(dataset, first, TAKEN)
    assert taken_files.untaken(dataset, [corrected]) == [corrected.model_copy(update={"replaces": first})]
    take(dataset, second, TAKEN.model_copy(update={"etag": "def", "sha256": "s2", "replaces": first}))
    assert taken_files.untaken(dataset, [corrected]) == []
    assert taken_files.untaken(dataset, [FILE]) == [FILE.model_copy(update={"replaces": second})]
    assert taken_files.corrections(dataset).replaced == ((first, FILE.uri),)
    assert taken_files.corrections(dataset).replacing == ((second, FILE.uri),)


def test_a_replaced_version_is_the_files_that_has_its_bytes_still(dataset):
    """First of two by name, however their repeats were noted; of none, once all have other bytes."""
    a, b, c = f"{dataset}-1", f"{dataset}-2", f"{dataset}-3"
    names = [f"s3://landing/x/{name}.json" for name in ("again", "more")]
    take(dataset, a, TAKEN)
    take(dataset, b, TAKEN.model_copy(update={"uri": names[1], "same_as": FILE.uri, "rows": 0}))
    take(dataset, c, TAKEN.model_copy(update={"uri": names[0], "same_as": names[1], "rows": 0}))
    assert taken_files.corrections(dataset) == Corrections()
    take(dataset, f"{dataset}-4", TAKEN.model_copy(update={"etag": "4", "sha256": "s4", "replaces": a}))
    found = taken_files.corrections(dataset)
    assert found.inherited == ((a, FILE.uri, names[0]),)
    assert found.replaced == tuple(sorted([(a, FILE.uri), (a, names[1])])), "and under no other name"
    other = {"uri": names[0], "etag": "5", "sha256": "s5", "replaces": c}
    take(dataset, f"{dataset}-5", TAKEN.model_copy(update=other))
    assert taken_files.corrections(dataset).inherited == ((a, FILE.uri, names[1]),)
    take(dataset, f"{dataset}-6", TAKEN.model_copy(update={**other, "uri": names[1], "replaces": b}))
    found = taken_files.corrections(dataset)
    assert found.inherited == ()
    assert set(found.replaced) == {(a, FILE.uri), *((a, name) for name in names), (c, names[0]), (b, names[1])}


def test_content_is_known_by_files_in_force_of_the_same_length(dataset):
    other = FILE.model_copy(update={"uri": "s3://landing/x/2.json"})
    take(dataset, f"{dataset}-1", TAKEN)
    assert taken_files.known_content(dataset, [other], None) == {"s1": FILE.uri}
    assert taken_files.known_content(dataset, [other], DAY) == {"s1": FILE.uri}
    assert taken_files.known_content(dataset, [other.model_copy(update={"bytes": 4})], None) == {}
    assert taken_files.known_content(dataset, [FILE, other], None) == {}
    take(dataset, f"{dataset}-2", TAKEN.model_copy(update={"etag": "def", "sha256": "s2"}))
    assert taken_files.known_content(dataset, [other], None) == {"s2": FILE.uri}


def test_what_a_later_try_has_read_replaces_what_an_earlier_one_had(dataset):
    other = FILE.model_copy(update={"uri": "s3://landing/x/2.json"})
    batches.intend(batch(dataset), [TAKEN, TAKEN.model_copy(update={"uri": "s3://landing/x/gone"})])
    batches.intend(batch(dataset), [TAKEN.model_copy(update={"sha256": "s2"})])
    batches.settle(batch(dataset).batch_id, PUBLISHED)
    assert taken_files.known_content(dataset, [other], None) == {"s2": FILE.uri}


def test_a_crash_after_publish_is_settled_as_published(made):
    write = tables.write(made, [1], **{naming.BATCH: batch(made).batch_id})
    batches.intend(batch(made, write))
    publish(write, covers=DAY)
    settle(made)
    assert state(made) == PUBLISHED


def test_a_crash_before_publish_is_settled_as_discarded(made):
    write = tables.write(made, [1], **{naming.BATCH: batch(made).batch_id})
    batches.intend(batch(made, write))
    settle(made)
    assert state(made) == DISCARDED


def test_a_batch_is_found_by_its_id_though_another_try_published_it(made):
    published = tables.write(made, [1], branch="audit_first", **{naming.BATCH: batch(made).batch_id})
    publish(published, covers=DAY)
    lost = published.model_copy(update={"branch": "audit_second", "head": 12345})
    batches.intend(batch(made, lost))
    settle(made)
    assert state(made) == PUBLISHED


def verdict(gate: str, *, passed: bool, value: float = 0) -> GateResult:
    told = "passed" if passed else "failed"
    return GateResult(gate=gate, definition=gate, verdict=told, value=value, bound="at most 0", found="")


def test_a_version_has_passed_what_it_passed_when_it_was_last_audited(dataset):
    version = int(uuid4()) % 10**15
    gates.record("batch", "run/1", version, [verdict("rows", passed=True), verdict("unique", passed=True)])
    gates.record("batch", "run/2", version, [verdict("rows", passed=True), verdict("unique", passed=False)])
    gates.record("batch", "run/3", version + 1, [verdict("unique", passed=True)])
    assert gates.passed(version) == ("rows",)
    assert gates.passed(version + 2) == ()


def test_a_ledger_of_an_earlier_version_gains_the_columns_and_indexes_it_lacks(stack, dataset):
    gates.record("old", "run/1", 1, [verdict("kept", passed=True)])
    with database.engine().begin() as connection:
        connection.execute(text("ALTER TABLE gate_results DROP COLUMN snapshot_id"))
        connection.execute(text("DROP INDEX batches_by_publish"))
    database.engine.cache_clear()
    gates.record("new", "run/1", 2, [verdict("rows", passed=True)])
    assert gates.passed(2) == ("rows",)
    with database.engine().connect() as connection:
        rows = connection.execute(text("SELECT snapshot_id FROM gate_results WHERE batch_id = 'old'")).all()
        indexed = connection.execute(text("SELECT indexdef FROM pg_indexes WHERE tablename = 'gate_results'"))
        assert any("snapshot_id" in one for (one,) in indexed)
        names = set(connection.execute(text("SELECT indexname FROM pg_indexes WHERE tablename = 'batches'")).scalars())
        assert "batches_by_publish" in names
    assert rows
    assert set(rows) == {(None,)}
