"""Going back: versions told, compared, rolled back and forward, rebuilt and pinned, on the real stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pytest

from lakehouse import naming
from lakehouse.batch import PUBLISHED, UNDONE
from lakehouse.catalog import coverage, ref_snapshot, table
from lakehouse.diff import difference
from lakehouse.ledger import batches, rollbacks
from lakehouse.lineage import lineage
from lakehouse.naming import INPUT_TAG, table_sql
from lakehouse.pins import PinError, pin, pins, unpin
from lakehouse.plan import Attempt
from lakehouse.provenance import code_version
from lakehouse.query import run_sql
from lakehouse.rebuild import CannotRebuild, rebuild, row_hash
from lakehouse.retention import drop_old_branches, keep_inputs
from lakehouse.rollback.planned import CannotRollBack
from lakehouse.rollback.told import roll_back
from lakehouse.sample import Recipe
from lakehouse.steps import GateFailed
from lakehouse.timeline import timeline
from lakehouse.versions import NoVersion
from spark_jobs.session import connect
from tests.stack import tables
from tests.stack.shop import Shop, in_session, interval

DAYS = [date(2026, 1, 1) + timedelta(n) for n in range(3)]
RECIPE = Recipe.of(0.05, 3, None)


@pytest.fixture
def sold(shop, spark) -> Shop:
    """Three days, through every layer, in their order."""
    return filled(shop, spark)


@pytest.fixture(scope="module")
def seen(stack, spark, tmp_path_factory) -> Iterator[Shop]:
    """The same, shared by tests that leave main of every table as it is."""
    opened = Shop.open(tmp_path_factory.mktemp("seen"))
    try:
        yield filled(opened, spark)
    finally:
        opened.close()


@pytest.fixture
def command(running, monkeypatch) -> Callable[..., str]:
    """What somebody types, and what it answers."""

    def typed(shop: Shop, *words: str) -> str:
        monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(shop.folder))
        return str(running.lakehouse(*words).stdout)

    return typed


def filled(shop: Shop, spark) -> Shop:
    shop.deliver(DAYS, RECIPE)
    for day in DAYS:
        run(shop, spark, day)
    return shop


def run(shop: Shop, spark, day: date, *datasets: str) -> None:
    for dataset in datasets or shop.datasets:
        shop.run(dataset, day, in_session(spark))


def hashes(shop: Shop, *datasets: str) -> dict[str, str]:
    """Of all rows of main, by dataset."""
    asked = datasets or shop.datasets
    return {name: row_hash(shop.contract(name), tables.loaded(name), main(name))[1] for name in asked}


def main(name: str) -> int:
    return tables.head(name)


def versions(shop: Shop, dataset: str) -> list[int]:
    """Main after each day's batch, oldest first."""
    found = [batch for batch in batches.recent(dataset) if batch.state == PUBLISHED]
    return [next(w.head for w in b.writes if w.table == dataset) or 0 for b in reversed(found)]


def back(shop: Shop, dataset: str, to: int, *, apply: bool = True) -> list[str]:
    known = [shop.contract(name) for name in shop.datasets]
    return roll_back(shop.contract(dataset), str(to), known, by="who", why="a test", apply=apply)


def covered(dataset: str) -> list[bool]:
    return [interval(day) in coverage(table(dataset)) for day in DAYS]


def delete_a_third(shop: Shop) -> None:
    """As somebody would who knows Spark and not the platform: in a session of their own."""
    session = connect(str(uuid4()))
    session.sql(f"DELETE FROM {table_sql(shop.silver)} WHERE order_id % 3 = 0")
    session.stop()


def test_the_timeline_tells_batches_runs_rows_and_names(seen):
    newest, *older = [entry for entry in timeline(tables.loaded(seen.silver)) if entry.in_main]
    batch = batches.recent(seen.silver)[0]
    assert (newest.snapshot, newest.batch_id, newest.run) == (main(seen.silver), batch.batch_id, batch.run)
    assert newest.refs == ("main",)
    assert sum(entry.added - entry.removed for entry in (newest, *older)) == count(seen.silver)


def count(dataset: str) -> int:
    return int(run_sql(f"SELECT count(*) FROM {dataset}")[1][0][0])


def test_an_accident_is_seen_by_diff_rolled_back_and_gold_is_as_it_was(sold, spark, command):
    before, good = hashes(sold), main(sold.silver)
    rows = count(sold.silver)
    delete_a_third(sold)
    gone = rows - count(sold.silver)
    assert 0 < gone < rows
    run(sold, spark, DAYS[-1], sold.gold)
    assert hashes(sold, sold.gold) != {sold.gold: before[sold.gold]}

    _, newest, *_ = command(sold, "snapshots", sold.silver).splitlines()
    assert newest.split("\t")[2:7] == ["delete", "+0", f"-{gone}", "", ""], "no batch made it"
    told, _, *sample = command(sold, "diff", sold.silver, str(good), "--sample", "3").splitlines()
    assert told == f"0 added, {gone} removed, 0 changed"
    assert [line.split("\t")[0] for line in sample] == ["removed"] * 3

    shown = command(sold, "rollback", sold.silver, "--to", str(good))
    assert shown.splitlines()[0].endswith(f"rows: {gone} added, 0 removed, 0 changed")
    assert main(sold.silver) != good, "it was only shown"
    done = command(sold, "rollback", sold.silver, "--to", str(good), "--yes", "--why", "a third was deleted")
    days = "-s 2026-01-03 -e 2026-01-03"
    rerun = f"lakehouse airflow dags backfill {days} {naming.dag_id(sold.gold)} --reset-dagruns -y"
    assert f"built from what is undone, to be built again: {rerun}" in done
    assert rollbacks.recent(sold.silver)[0]["why"] == "a third was deleted"
    assert "a third was deleted" in command(sold, "rollback", sold.silver, "--log")
    assert covered(sold.silver) == [True] * 3
    run(sold, spark, DAYS[-1], sold.gold)
    assert hashes(sold) == before


def test_batches_that_are_undone_are_waited_for_and_can_be_built_again(sold, spark):
    before, (first, _, last) = hashes(sold), versions(sold, sold.silver)
    feed = count(naming.feed_table(sold.silver))
    done = back(sold, sold.silver, first)
    assert covered(sold.silver) == [True, False, False]
    states = [batch.state for batch in batches.recent(sold.silver)]
    assert states == [UNDONE, UNDONE, PUBLISHED]
    assert len([line for line in done if line.startswith("undone: ")]) == 2
    assert count(naming.feed_table(sold.silver)) < feed
    for day in DAYS[1:]:
        run(sold, spark, day)
    assert covered(sold.silver) == [True] * 3
    assert count(naming.feed_table(sold.silver)) == feed
    assert hashes(sold) == before
    assert main(sold.silver) != last


def test_what_was_rolled_back_can_be_rolled_forward(sold, spark):
    before, (first, _, last) = hashes(sold), versions(sold, sold.silver)
    companions = {name: ref_snapshot(table(name)) for name in sold.contract(sold.silver).tables}
    back(sold, sold.silver, first)
    assert hashes(sold) != before
    back(sold, sold.silver, last)
    assert covered(sold.silver) == [True] * 3
    assert {name: ref_snapshot(table(name)) for name in companions} == companions
    assert {batch.state for batch in batches.recent(sold.silver)} == {PUBLISHED}
    state = sold.state()
    for day in DAYS:
        run(sold, spark, day)
    assert sold.state() == state
    assert hashes(sold) == before


def test_files_of_a_bronze_batch_that_is_undone_are_taken_again_once(sold, spark):
    before, (first, *_) = hashes(sold, sold.silver, sold.gold), versions(sold, sold.bronze)
    rows = count(sold.bronze)
    back(sold, sold.bronze, first)
    assert count(sold.bronze) < rows
    for day in DAYS:
        run(sold, spark, day)
    places = run_sql(f"SELECT count(*), count(DISTINCT (_source_file, _source_offset)) FROM {sold.bronze}")[1]
    assert places == [(rows, rows)]
    assert hashes(sold, sold.silver, sold.gold) == before


def test_a_row_that_is_there_twice_is_a_difference(seen, spark):
    """On a branch: main stays as it is."""
    name = table_sql(seen.silver)
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH twice")
    spark.sql(f"INSERT INTO {name}.branch_twice SELECT * FROM {name} WHERE order_id % 3 = 0")
    found = tables.loaded(seen.silver)
    shown = difference(seen.contract(seen.silver), found, main(seen.silver), ref_snapshot(found, "twice"))
    spark.sql(f"ALTER TABLE {name} DROP BRANCH twice")
    twice = run_sql(f"SELECT count(*) FROM {seen.silver} WHERE order_id % 3 = 0")[1]
    assert shown.counts == {"added": twice[0][0], "removed": 0, "changed": 0}


@pytest.mark.full  # the same on small tables: test_rollback.py
def test_a_batch_that_changed_no_row_is_undone_with_those_before_it(sold, spark):
    """The last day comes once more under another name, with one record more: all of it known or rejected."""
    before, (_, second, _) = hashes(sold), versions(sold, sold.silver)
    key, data = max(sold.landed(DAYS[-1]).items())
    sold.put([(key.replace(".json", "-again.json"), data + b"{no record\n")])
    run(sold, spark, DAYS[-1], sold.bronze, sold.silver)
    last = batches.recent(sold.silver)[0]
    assert next(w for w in last.writes if w.table == sold.silver).empty
    rejected = count(naming.quarantine_table(sold.silver))
    back(sold, sold.silver, second)
    assert covered(sold.silver) == [True, True, False]
    assert batches.by_id([last.batch_id])[0].state == UNDONE
    run(sold, spark, DAYS[-1])
    assert hashes(sold, sold.silver, sold.gold) == {k: before[k] for k in (sold.silver, sold.gold)}
    assert count(naming.quarantine_table(sold.silver)) == rejected


@pytest.mark.full  # the same on small tables: test_rollback.py
def test_what_a_later_try_left_is_no_way_forward(sold, spark):
    """After a rollback a batch is built again beside the table: companions go where the ledger says, not there."""
    (first, second, last) = versions(sold, sold.silver)
    companions = {name: ref_snapshot(table(name)) for name in sold.contract(sold.silver).tables}
    back(sold, sold.silver, second)
    rebuild(sold.contract(sold.silver), interval(DAYS[1]), None, Attempt("test", 1), in_session(spark))
    back(sold, sold.silver, first)
    back(sold, sold.silver, last)
    assert {name: ref_snapshot(table(name)) for name in companions} == companions


def test_a_version_behind_expired_ones_is_refused(sold, spark):
    """It is not known any more what lies between, so nobody could say what would be undone."""
    (first, *_) = versions(sold, sold.silver)
    pin(sold.silver, "old", None, str(first), with_inputs=False)
    expire(spark, sold.silver, keep=1)
    with pytest.raises(CannotRollBack, match=r"never was at|nothing leads from main"):
        back(sold, sold.silver, first)


def test_a_version_that_is_not_there_or_is_main_is_refused(seen):
    with pytest.raises(CannotRollBack, match=r"is at .* already"):
        back(seen, seen.silver, main(seen.silver))
    with pytest.raises(NoVersion, match="no branch, tag or snapshot '12345'"):
        back(seen, seen.silver, 12345)


def test_lineage_leads_from_gold_to_the_version_of_bronze(seen):
    tree = lineage(seen.gold, main(seen.gold))
    (silver,) = tree.inputs
    (bronze,) = silver.inputs
    assert (silver.dataset, silver.snapshot) == (seen.silver, main(seen.silver))
    assert (bronze.dataset, bronze.snapshot) == (seen.bronze, main(seen.bronze))
    assert bronze.batch_id == batches.recent(seen.bronze)[0].batch_id
    assert tree.contract == seen.contract(seen.gold).version


@pytest.mark.parametrize("layer", ["bronze", "silver", "gold"])
def test_a_batch_that_is_built_again_gives_the_same_rows(seen, spark, layer):
    dataset, state = getattr(seen, layer), seen.state()
    second = versions(seen, dataset)[1]
    done = rebuild(seen.contract(dataset), interval(DAYS[1]), str(second), Attempt("test", 1), in_session(spark))
    assert done.equal
    assert done.same_code
    assert (done.rows > 0, done.snapshot) == (True, second)
    assert {name: one for name, (one, _) in seen.state().items()} == {name: one for name, (one, _) in state.items()}
    assert not [ref for name in state for ref in tables.loaded(name).metadata.refs if ref != "main"]


def test_commands_tell_the_lineage_build_again_and_pin(seen, command):
    versions_named = [f"{name} @ {main(name)}" for name in (seen.gold, seen.silver, seen.bronze)]
    tree = command(seen, "lineage", seen.gold).splitlines()
    assert [one for line, one in zip(tree, versions_named, strict=True) if one in line] == versions_named
    assert all(line.rstrip().endswith(code_version()) for line in tree), "nothing is cut off"
    again = command(seen, "rebuild", seen.gold, "--interval", str(DAYS[1]))
    assert again.endswith("The rows are the same.\n")
    made = command(seen, "pin", seen.gold, "audit-2026", "--keep", "30d", "--with-inputs")
    assert [line.split(" is pinned")[0] for line in made.splitlines()] == versions_named
    assert [line.split("\t")[:2] for line in command(seen, "pins", seen.gold).splitlines()[1:]] == [
        [seen.gold, "audit-2026"]
    ]
    assert count_at(seen.gold, "audit-2026") == count(seen.gold)
    command(seen, "unpin", seen.gold, "audit-2026")
    assert pins([seen.gold]) == []


def count_at(dataset: str, at: str) -> int:
    return int(run_sql(f"SELECT count(*) FROM {dataset}", at=at)[1][0][0])


def expire(spark, name: str, keep: int) -> None:
    limit = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d %H:%M:%S}"
    spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP'{limit}', retain_last => {keep})"
    )


def wear(spark, name: str) -> None:
    """All that maintenance may do to a table."""
    options = "map('rewrite-all', 'true', 'min-input-files', '1')"
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}', options => {options})")
    expire(spark, name, keep=1)
    before = f"{datetime.now(UTC) - timedelta(days=2):%Y-%m-%d %H:%M:%S}"
    where = f"table => '{name}', older_than => TIMESTAMP'{before}', prefix_listing => true"
    spark.sql(f"CALL lake.system.remove_orphan_files({where})")


def test_a_pinned_version_and_its_inputs_outlive_maintenance(sold, spark):
    first = {dataset: versions(sold, dataset)[0] for dataset in sold.datasets}
    before = {name: row_hash(sold.contract(name), tables.loaded(name), first[name]) for name in sold.datasets}
    made = pin(sold.gold, "training", timedelta(days=365), str(first[sold.gold]), with_inputs=True)
    assert {one.dataset: one.snapshot for one in made} == first
    for name in sold.datasets:
        wear(spark, name)
    for name in sold.datasets:
        found = tables.loaded(name)
        assert len(found.metadata.snapshots) == 2, "the pinned version and main"
        assert row_hash(sold.contract(name), found, ref_snapshot(found, "training")) == before[name]
    again = rebuild(sold.contract(sold.gold), interval(DAYS[0]), "training", Attempt("test", 2), in_session(spark))
    assert again.equal
    with pytest.raises(PinError, match="has a pin 'training' on another version"):
        pin(sold.gold, "training", None, with_inputs=False)
    unpin(sold.gold, "training")
    assert [one.dataset for one in pins(list(sold.datasets))] == [sold.bronze, sold.silver]
    with pytest.raises(PinError, match="has no pin 'training'; it has none"):
        unpin(sold.gold, "training")


def test_a_pin_is_kept_as_long_as_it_says_from_when_it_is_set(seen):
    now = datetime.now(UTC)
    (made,) = pin(seen.gold, "held", timedelta(days=10), str(versions(seen, seen.gold)[0]), with_inputs=False)
    (known,) = pins([seen.gold])
    assert (known.name, known.snapshot) == (made.name, made.snapshot)
    assert known.until is not None
    assert timedelta(days=10) <= known.until - now < timedelta(days=10, minutes=5)
    unpin(seen.gold, "held")


@pytest.mark.parametrize("name", ["main", "audit_x", "12345", "a b", "-x", f"{INPUT_TAG}y"])
def test_a_name_that_means_something_else_is_no_pin(name):
    with pytest.raises(PinError):
        pin("gold.any", name, None, with_inputs=False)


def test_inputs_live_as_long_as_what_was_made_from_them(sold, spark):
    """Gold keeps 90 days: the versions of silver that it names outlive silver's own retention."""
    known = [sold.contract(name) for name in sold.datasets]
    now = datetime.now(UTC)
    used = set(versions(sold, sold.silver))
    keep_inputs(sold.silver, known, now, all_known=True)
    expire(spark, sold.silver, keep=1)
    assert {one.snapshot_id for one in tables.loaded(sold.silver).metadata.snapshots} >= used
    keep_inputs(sold.silver, known, now + timedelta(days=100), all_known=True)
    expire(spark, sold.silver, keep=1)
    # The newest versions of gold are kept whatever their age, and so is what they were made from.
    left = {one.snapshot_id for one in tables.loaded(sold.silver).metadata.snapshots}
    assert used & left == used
    keep_inputs(sold.silver, known[:1], now, all_known=False)
    expire(spark, sold.silver, keep=1)
    assert {one.snapshot_id for one in tables.loaded(sold.silver).metadata.snapshots} == left, "gold's is broken, maybe"
    keep_inputs(sold.silver, known[:1], now, all_known=True)
    expire(spark, sold.silver, keep=1)
    assert len(tables.loaded(sold.silver).metadata.snapshots) == 1
    with pytest.raises(CannotRebuild, match=rf"needs version \d+ of {sold.silver}, which has expired"):
        rebuild(sold.contract(sold.gold), interval(DAYS[1]), None, Attempt("test", 1), in_session(spark))


def test_the_branch_of_a_failed_audit_is_dropped_after_the_contracts_days(shop, spark) -> None:
    (file,) = (shop.folder / "silver").glob("*.yaml")
    file.write_text(file.read_text().replace("gates:", "gates:\n  - row_count: {at_least: 1000000}"))
    shop.deliver(DAYS[:1], RECIPE)
    with pytest.raises(GateFailed):
        run(shop, spark, DAYS[0], shop.bronze, shop.silver)
    contract, now = shop.contract(shop.silver), datetime.now(UTC)
    assert drop_old_branches(contract, shop.silver, now + timedelta(days=6)) == []
    assert len(drop_old_branches(contract, shop.silver, now + timedelta(days=8))) == 1
    assert "main" not in tables.loaded(shop.silver).metadata.refs
    assert not tables.loaded(shop.silver).metadata.refs
