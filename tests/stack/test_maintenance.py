"""Maintenance on the real stack: what it does to a worn table, what it proves, and what it never takes away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetPropertiesUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyspark.sql import SparkSession

from lakehouse.catalog import catalog, ref_snapshot
from lakehouse.intervals import Coverage, Interval
from lakehouse.jobs import Call
from lakehouse.ledger import leases
from lakehouse.ledger import maintenance as log
from lakehouse.maintenance import seen
from lakehouse.maintenance.carried_out import LeaseHeld, carry_out
from lakehouse.maintenance.orphans import refusal
from lakehouse.maintenance.planned import TooYoung
from lakehouse.maintenance.proof import own_versions
from lakehouse.maintenance.reachable import FilesMissing, check, listed
from lakehouse.maintenance.step import Step
from lakehouse.naming import COVERAGE, table_sql
from lakehouse.plan import Attempt
from lakehouse.query import run_sql
from lakehouse.store import client
from tests.stack import tables
from tests.stack.shop import in_session
from tests.stack.tables import loaded
from tests.stack.worn import DAYS, Worn, in_days, keep, key_in, planned, put_aged, worn_table


@pytest.fixture
def worn(spark) -> Iterator[Worn]:
    yield from worn_table(spark)


def no_spark(job: object) -> None:
    raise AssertionError(f"no job was needed, and one ran: {job}")


def operations(name: str) -> list[str]:
    return [row["operation"] for row in log.recent(name, 50)]


def set_ref(name: str, ref: str, kind: SnapshotRefType, snapshot_id: int) -> None:
    update = SetSnapshotRefUpdate(**{"ref-name": ref, "type": kind, "snapshot-id": snapshot_id})
    catalog().commit_table(loaded(name), (), (update,))


def set_covered(name: str, until: datetime) -> None:
    covered = Coverage.of([Interval(datetime(2026, 1, 1, tzinfo=UTC), until)])
    catalog().commit_table(loaded(name), (), (SetPropertiesUpdate(updates={COVERAGE: covered.dumps()}),))


def test_health_is_what_spark_counts(worn, spark):
    worn.wear(spark)
    worn.delete(spark, range(50))
    found = worn.health()
    (files, size, rows) = spark.sql(
        f"SELECT count(*), sum(file_size_in_bytes), sum(record_count) FROM {table_sql(worn.name)}.data_files"
    ).first()
    assert (found.files, found.bytes) == (files, size)
    assert (found.rows, found.deleted_rows) == (rows - 50, 50)
    assert (found.delete_files, found.format_version) == (1, 3)
    assert 0 < found.delete_bytes < 1_000, "the vector's own bytes, not those of the file that it shares"
    assert sum(one.deletes_of_one_file for one in found.partitions) == 1
    assert {one.name for one in found.partitions} == {f"at_day={day}" for day in DAYS}


def test_a_worn_table_is_healthy_afterwards_and_holds_the_same_rows(worn, spark):
    worn.wear(spark)
    worn.delete(spark, range(20))
    before, contract = worn.health(), worn.contract()
    lines = keep(contract, in_session(spark))
    after = worn.health()
    assert (after.files, after.delete_files, after.small_files) == (3, 0, 0), lines
    assert after.rows == before.rows == len(worn.rows)
    worn.holds_its_rows()
    assert keep(contract, no_spark) == [], "a second window finds nothing to do"
    done = {row["operation"]: row for row in log.recent(worn.name, 50)}
    packed = done["rewrite_data_files"]
    assert packed["outcome"] == "done"
    assert (packed["before"]["files"], packed["after"]["files"]) == (12, 3)
    assert packed["before"]["rows"] == packed["after"]["rows"]
    assert packed["score_after"] > packed["score_before"]
    assert packed["bytes_read"] > packed["bytes_written"] > 0
    assert packed["files_checked"] > 12, "files of the versions before are reachable, too"
    assert "set_properties" in done
    settings = loaded(worn.name).properties
    assert settings["write.parquet.compression-codec"] == "zstd"
    assert settings["write.parquet.row-group-size-bytes"] == str(2 << 20)


def test_only_the_partitions_that_need_it_are_rewritten_and_never_the_open_one(worn, spark):
    worn.wear(spark, files=3)
    worn.write(spark, DAYS[0], range(90_000, 90_010))
    set_covered(worn.name, datetime(2026, 1, 3, tzinfo=UTC))  # the third day is still to come
    plan = planned(worn.contract(min_input_files=4))
    assert plan.put_off == ()
    (step,) = [one for one in plan.steps if one.operation == "rewrite_data_files"]
    assert "at_day=2026-01-01" in step.reason
    plan = planned(worn.contract())
    assert plan.put_off == ("at_day=2026-01-03 is still being written",)
    keep(worn.contract(), in_session(spark), "rewrite_data_files")
    assert [one.files for one in worn.health().partitions] == [1, 1, 3]
    worn.holds_its_rows()


def test_slices_leave_the_lease_free_in_between(worn, spark):
    worn.wear(spark)
    contract, taken = worn.contract(slice_mb=1), []
    steps = [
        step.model_copy(update={"call": step.call.model_copy(update={"where": part.where})})
        for step in planned(contract).steps
        if step.operation == "rewrite_data_files" and step.call
        for part in worn.health().partitions
    ]
    for _ in carry_out(contract, steps, Attempt(f"test/{uuid4().hex}", 1), in_session(spark)):
        taken.append(leases.acquire(worn.name, "a writer", "a writer#1"))
        leases.release(worn.name, "a writer")
    assert taken == [True, True, True]
    assert [one.files for one in worn.health().partitions] == [1, 1, 1]
    worn.holds_its_rows()


def test_a_step_takes_no_more_files_than_it_says_though_fewer_would_not_need_it(worn, spark):
    """Parts of a partition count on it: Iceberg looks for what needs it first, and cuts afterwards."""
    worn.wear(spark)
    (step,) = [one for one in planned(worn.contract()).steps if one.operation == "rewrite_data_files"]
    assert step.call.options["max-files-to-rewrite"] == "12"
    fewer = {"options": {**step.call.options, "max-files-to-rewrite": "2"}}
    part = step.model_copy(update={"call": step.call.model_copy(update=fewer)})
    (line,) = carry_out(worn.contract(), [part], Attempt(f"test/{uuid4().hex}", 1), in_session(spark))
    assert "files 12 → 11" in line
    worn.holds_its_rows()


def test_a_table_that_is_being_written_is_put_off(worn, spark):
    worn.wear(spark, files=1)
    assert leases.acquire(worn.name, "a writer", "a writer#1")
    try:
        with pytest.raises(LeaseHeld, match="is being written by a writer"):
            keep(worn.contract(), no_spark)
    finally:
        leases.release(worn.name, "a writer")
    assert operations(worn.name) == []


def test_a_sorted_and_a_z_ordered_rewrite_keep_the_rows(worn, spark):
    worn.wear(spark, files=3)
    keep(worn.contract(sort_by=["amount"]), in_session(spark), "rewrite_data_files")
    worn.holds_its_rows()
    for day in DAYS:
        for n in range(3):
            first = 200_000 + DAYS.index(day) * 1_000 + n * 10
            worn.write(spark, day, range(first, first + 10))
    keep(worn.contract(strategy="zorder", sort_by=["id", "amount"]), in_session(spark), "rewrite_data_files")
    assert worn.health().files == 3
    worn.holds_its_rows()


def test_a_column_that_was_dropped_is_gone_from_the_files_in_time(worn, spark):
    worn.wear(spark, files=1)
    spark.sql(f"ALTER TABLE {table_sql(worn.name)} ADD COLUMN secret STRING")
    spark.sql(f"INSERT INTO {table_sql(worn.name)} SELECT 7777, TIMESTAMP '{DAYS[0]} 12:00:00', 231, 'hush'")
    worn.rows[7777] = (DAYS[0], 231)
    spark.sql(f"ALTER TABLE {table_sql(worn.name)} DROP COLUMN secret")
    contract, week_on = worn.contract(min_input_files=9), in_days(8)
    assert holding("secret", worn) == 1
    assert keep(contract, no_spark, "rewrite_data_files") == [], "it may be a mistake: there is time to undo it"
    (line,) = keep(contract, in_session(spark), "rewrite_data_files", now=week_on)
    assert "1 files still hold columns that were dropped" in line
    assert holding("secret", worn) == 0
    worn.holds_its_rows()
    assert keep(contract, no_spark, "rewrite_data_files", now=week_on) == []


def holding(column: str, worn: Worn) -> int:
    """In how many data files of main a column is."""
    found = loaded(worn.name)
    paths = [task.file.file_path for task in found.scan().plan_files()]
    return sum(column in pq.read_schema(found.io.new_input(path).open()).names for path in paths)


def test_what_a_rewrite_writes_can_be_cut_and_files_that_fit_to_no_other_are_left(worn, spark):
    """A file of one row group of more than half the target would come out of each rewrite as it is."""
    contract = worn.contract(target_file_mb=1)
    keep(contract, no_spark, "set_properties")
    foreign = "'write.parquet.row-group-size-bytes' = '134217728'"
    spark.sql(f"ALTER TABLE {table_sql(worn.name)} SET TBLPROPERTIES ({foreign})")
    for part in range(4):
        noise(worn, spark, DAYS[0], range(part * 70_000, (part + 1) * 70_000))
    (whole,) = worn.health().partitions
    assert 1 << 19 < whole.bytes / whole.files < 3 << 18
    assert "rewrite_data_files" not in {step.operation for step in planned(contract).steps}
    for part in range(3):
        noise(worn, spark, DAYS[1], range(1_000_000 + part * 20_000, 1_000_000 + (part + 1) * 20_000))
    keep(contract, in_session(spark), "set_properties", "rewrite_data_files")
    assert [one.files for one in worn.health().partitions] == [4, 1]
    found = loaded(worn.name)
    (made,) = (task.file.file_path for task in found.scan(f"at >= '{DAYS[1]}T00:00:00+00:00'").plan_files())
    assert pq.ParquetFile(found.io.new_input(made).open()).num_row_groups > 1
    assert "rewrite_data_files" not in {step.operation for step in planned(contract).steps}


def noise(worn: Worn, spark: SparkSession, day: date, ids: range) -> None:
    """One file of rows that no compression makes small."""
    rows = spark.sql(
        f"SELECT id, TIMESTAMP '{day} 12:00:00' AS at, xxhash64(id) AS amount FROM range({ids.start}, {ids.stop}, 1, 1)"
    )
    rows.writeTo(table_sql(worn.name)).append()


def test_rows_of_the_year_1_are_rewritten_as_any_other(worn, spark):
    """A source writes that day where it knows none."""
    for part in range(3):
        worn.write(spark, date.min, range(part * 10, part * 10 + 10))
    keep(worn.contract(), in_session(spark), "rewrite_data_files")
    assert [(one.name, one.files) for one in worn.health().partitions] == [("at_day=0001-01-01", 1)]
    worn.holds_its_rows()


def test_many_lists_of_files_become_few(worn, spark):
    worn.wear(spark, files=2)
    before = worn.health()
    keep(worn.contract(), in_session(spark), "rewrite_manifests")
    after = worn.health()
    assert after.manifests < before.manifests
    assert after.files == before.files
    worn.holds_its_rows()


def test_expiry_keeps_what_tags_and_branches_name_and_the_bucket_holds_less(worn, spark):
    worn.wear(spark, files=3)
    found = loaded(worn.name)
    line = [one.snapshot_id for one in found.metadata.snapshots]
    set_ref(worn.name, "training", SnapshotRefType.TAG, line[2])
    set_ref(worn.name, "audit_look", SnapshotRefType.BRANCH, line[4])
    keep(worn.contract(), in_session(spark), "rewrite_data_files")
    before = set(listed(found.location()))
    contract = worn.contract(retention={"snapshots": "0d", "keep_last": 1, "branches": "900d"})
    keep(contract, in_session(spark), "expire_snapshots", now=in_days(1))
    left = loaded(worn.name)
    # Of those that a writer made, the last; and what maintenance made of it.
    last = {one.snapshot_id for one in own_versions(left, line[-1])} | {line[-1]}
    # Iceberg keeps as many of a branch as of main: it knows one number for both.
    branch = set(line[:5][-len(last) :])
    assert {one.snapshot_id for one in left.metadata.snapshots} == {line[2]} | branch | last
    assert ref_snapshot(left) in last
    assert line[0] not in branch, "an old version of the branch has to go, too"
    assert len(set(listed(found.location()))) < len(before)
    assert check(worn.name, left) > 0
    for name, expected in (("training", 300), ("audit_look", 500)):
        assert run_sql(f"SELECT count(*) FROM {worn.name}", at=name)[1][0][0] == expected
    worn.holds_its_rows()
    again = {step.operation for step in planned(contract, in_days(1)).steps}
    assert "expire_snapshots" not in again, "what something keeps is not tried again at each window"


def test_many_versions_expire_a_few_at_a_time(worn, spark, monkeypatch):
    worn.wear(spark, files=3)
    monkeypatch.setattr(seen, "_EXPIRED_AT_ONCE", 3)
    contract = worn.contract(retention={"snapshots": "0d", "keep_last": 1})
    lines = keep(contract, in_session(spark), "expire_snapshots", now=in_days(1))
    assert [re.findall(r"versions (\d+ → \d+)", line) for line in lines] == [["9 → 6"], ["6 → 3"], ["3 → 1"]]
    assert check(worn.name, loaded(worn.name)) > 0
    worn.holds_its_rows()
    assert "expire_snapshots" not in {step.operation for step in planned(contract, in_days(1)).steps}


def test_a_file_that_a_version_names_and_that_is_gone_is_found(worn, spark):
    worn.wear(spark, files=1)
    found = loaded(worn.name)
    victim = next(path for path in listed(found.location()) if path.endswith(".parquet"))
    client().delete_object(Bucket="lake", Key=victim.removeprefix("s3://lake/"))
    with pytest.raises(FilesMissing, match="1 of 10 files that its versions name are gone: "):
        check(worn.name, found)
    with pytest.raises(FilesMissing):
        keep(worn.contract(), no_spark, "set_properties")
    assert log.recent(worn.name, 1)[0]["outcome"].startswith("failed: ")


def test_orphans_are_listed_then_removed_and_what_is_young_or_named_stays(worn, spark):
    """The young one is that of a write which is not done, and knows nothing of leases."""
    worn.wear(spark, files=1)
    for name, days in (("old.parquet", 10), ("at-the-floor.parquet", 2), ("young.parquet", 0)):
        put_aged(key_in(worn, name), days)
    before = set(listed(loaded(worn.name).location()))
    (line,) = keep(worn.contract(), in_session(spark), "remove_orphan_files")
    gone = before - set(listed(loaded(worn.name).location()))
    assert {path.rsplit("/", 1)[1] for path in gone} == {"old.parquet"}
    assert "1 files removed" in line
    (row,) = log.recent(worn.name, 1)
    assert row["detail"]["files"] == [f"s3://lake/{key_in(worn, 'old.parquet')}"]
    worn.holds_its_rows()
    assert "remove_orphan_files" not in {step.operation for step in planned(worn.contract()).steps}, "not each time"


def test_orphans_of_no_age_are_refused_by_plan_and_by_iceberg(worn, spark):
    """With the floor off, Iceberg's own day is left; nothing is removed."""
    worn.wear(spark, files=1)
    put_aged(key_in(worn, "young.parquet"), 0)
    forced = worn.contract().maintenance.model_copy(update={"orphans_after": timedelta(0)})
    with pytest.raises(TooYoung, match="is 3d at least"):
        planned(worn.contract().model_copy(update={"maintenance": forced}))
    call = Call(procedure="remove_orphan_files", older_than=datetime.now(UTC), dry_run=False)
    step = Step(table=worn.name, operation="remove_orphan_files", reason="a test", does="", call=call)
    attempt, later = Attempt(f"test/{uuid4().hex}", 1), in_days(3)
    with pytest.raises(Exception, match="24 hours"):
        list(carry_out(worn.contract(), [step], attempt, in_session(spark), clock=lambda: later))
    assert f"s3://lake/{key_in(worn, 'young.parquet')}" in set(listed(loaded(worn.name).location()))


def test_a_folder_of_two_tables_is_never_swept(worn, spark):
    worn.wear(spark, files=1)
    other = f"gold.shares_{uuid4().hex[:8]}"
    inside = loaded(worn.name).location() + "/inside"
    catalog().create_table(other, loaded(worn.name).schema(), location=inside)
    try:
        assert f"is shared with {other}" in refusal(worn.name, loaded(worn.name))
        assert f"is shared with {worn.name}" in refusal(other, loaded(other))
        plan = planned(worn.contract())
        assert "remove_orphan_files" not in {step.operation for step in plan.steps}
        assert any("is shared with" in reason for reason in plan.put_off)
    finally:
        catalog().drop_table(other)


def test_a_table_with_files_under_another_scheme_is_never_swept(stack):
    name = f"gold.mixed_{uuid4().hex[:8]}"
    tables.make(name)
    try:
        tables.add(name, [1])
        assert refusal(name, loaded(name)) == ""
        strange = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"s3a://lake/{name.replace('.', '/')}/data/strange.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=1,
        )
        strange.spec_id = 0
        with loaded(name).transaction() as change, change.update_snapshot().fast_append() as added:
            added.append_data_file(strange)
        assert "has files in s3a://lake" in refusal(name, loaded(name))
    finally:
        catalog().drop_table(name)


def test_a_dry_run_explains_itself_and_changes_nothing(worn, spark):
    from lakehouse.health.inspected import inspect
    from lakehouse.maintenance.told import lines

    worn.wear(spark)
    before = loaded(worn.name).metadata_location
    contract = worn.contract()
    found = inspect(worn.name, contract, datetime.now(UTC))
    assert found is not None
    text = "\n".join(lines(found, planned(contract)))
    assert "1. Settings." in text
    assert "2. Pack small files together." in text
    assert "The rows stay the same." in text
    assert loaded(worn.name).metadata_location == before


@pytest.fixture
def with_contract(spark, running) -> Iterator[Worn]:
    """A worn table whose contract lies where the commands look for it."""
    made = Worn.made(spark, "bronze")
    file = running.folder / "contracts" / "bronze" / f"{made.name.split('.')[1]}.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(CONTRACT.format(name=made.name))
    yield made
    file.unlink()
    made.drop()


CONTRACT = """
dataset: {name}
description: Wears out.
owner: team
start: 2026-01-01
source: {{kind: files, path: "worn/{{interval:%Y-%m-%d}}/"}}
sla: {{ready_within: 1h}}
retention: {{snapshots: 7d}}
maintenance: {{tier: hot, min_input_files: 3}}
"""


def test_the_commands_say_do_and_log_it(with_contract, spark, running):
    worn = with_contract
    worn.wear(spark, files=3)
    before = loaded(worn.name).metadata_location
    said = " ".join(running.lakehouse("maintain", worn.name, "--dry-run").stdout.split())
    assert f"{worn.name}: health " in said
    assert "and 2 more partitions 9 of 9 files are smaller" in said
    assert "3 steps on 1 table" in said
    assert loaded(worn.name).metadata_location == before, "a dry run changes nothing"
    (facts,) = json.loads(running.lakehouse("health", worn.name, "--json").stdout)
    assert (facts["files"], len(facts["partitions"])) == (9, 3)
    assert "small files" in running.lakehouse("health", worn.name).stdout
    running.lakehouse("maintain", worn.name)
    worn.holds_its_rows()
    logged = running.lakehouse("maintenance", "log", worn.name).stdout
    assert "9 → 3" in logged
    assert worn.name in running.lakehouse("health").stdout
    assert "Nothing to do." in running.lakehouse("maintain", worn.name, "--dry-run").stdout
    assert len(running.lakehouse("health", worn.name, "--history", "3").stdout.splitlines()) == 4
