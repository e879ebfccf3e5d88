"""When landing files have gone: datasets that come later, rollbacks, and a ledger that is older than that."""

from __future__ import annotations

import json
from datetime import date

import pytest
from sqlalchemy import delete, update

from lakehouse import landing
from lakehouse.batch import DISCARDED
from lakehouse.catalog import ref_snapshot, table
from lakehouse.intervals import Interval
from lakehouse.ledger import database as ledger
from lakehouse.ledger import landing_gone, rollbacks
from lakehouse.ledger.database import engine
from lakehouse.naming import CLEARED
from lakehouse.plan import Attempt
from lakehouse.plan import plan as plan_of_run
from lakehouse.rollback.planned import CannotRollBack, files_lost, plan
from lakehouse.steps import Handover
from lakehouse.store import client
from tests.stack.landing_world import DAY, FILES, NEXT, READY, Landing
from tests.stack.shop import interval


def two_days(folders: Landing) -> tuple[int | None, Handover]:
    """Bronze's version after the first day, and what the second brought."""
    folders.shop.land(DAY, FILES)
    folders.run()
    first = ref_snapshot(table(folders.shop.bronze))
    folders.shop.land(NEXT, {"c.jsonl": b'{"id": 7}\n'})
    second = folders.run(NEXT)
    assert second is not None
    return first, second


def test_a_cleared_folder_is_not_taken_for_a_day_without_data(folders):
    folders.shop.land(DAY, FILES)
    folders.run()
    folders.clear()
    prefix = folders.contract.landing_prefix(interval(DAY).start)
    told = json.loads(client().get_object(Bucket="landing", Key=prefix + CLEARED)["Body"].read())
    assert told["dataset"] == folders.shop.bronze
    late = f"bronze.late_{folders.shop.suffix}"
    folders.say(READY)
    folders.say(READY, late)
    again = f"landing/{prefix} was cleared for {folders.shop.bronze} since .* no batch of {late} .* landing/_archive/"
    with pytest.raises(landing.LandingError, match=again):
        folders.run(dataset=late)
    client().delete_object(Bucket="landing", Key=prefix + CLEARED)
    assert folders.run(dataset=late) is not None


def test_what_landing_has_no_files_of_any_more_is_not_undone(folders):
    first, second = two_days(folders)
    assert plan(folders.contract, str(first)).undone == (second.batch.batch_id,)
    folders.clear()
    with pytest.raises(CannotRollBack, match=r"1 landing files would have .* archived, such as s3://landing/_archive/"):
        plan(folders.contract, str(first))
    assert len(files_lost(folders.shop.bronze, landing_gone.taken_by([second.batch.batch_id]))) == 1


def test_no_file_goes_while_a_rollback_is_cut_short(folders):
    first, _ = two_days(folders)
    number = rollbacks.intend(plan(folders.contract, str(first)), "who", "why")
    assert any("a rollback was cut short" in reason for reason in folders.plan().put_off)
    rollbacks.abandon(number)
    assert not any("landing files" in reason for reason in folders.plan().put_off)


def forget(dataset: str, *, batches: bool = False) -> None:
    """The ledger is from before the dataset's files went; or from before they were taken, too."""
    with engine().begin() as connection:
        connection.execute(delete(ledger.landing_gone).where(ledger.landing_gone.c.dataset == dataset))
        if batches:
            connection.execute(
                update(ledger.batches).where(ledger.batches.c.dataset == dataset).values(state=DISCARDED)
            )


def test_what_went_after_the_ledgers_backup_is_not_undone_and_its_copy_is_found(folders):
    first, second = two_days(folders)
    folders.clear()
    forget(folders.shop.bronze)
    with pytest.raises(CannotRollBack, match=r"1 landing files would have .* or are not there any more; go to a later"):
        plan(folders.contract, str(first))
    folders.clear()
    (row,) = landing_gone.taken_by([second.batch.batch_id])
    assert (row.state, row.archived_to.partition("/_archive/")[2]) == (
        "absent",
        f"{folders.shop.bronze}/{second.batch.batch_id}/{folders.contract.landing_prefix(interval(NEXT).start)}c.jsonl",
    )
    with pytest.raises(CannotRollBack, match="archived, such as s3://landing/_archive/"):
        plan(folders.contract, str(first))


@pytest.mark.parametrize("ready", ["{manifest: manifest.json}", "{quiet: 1s}"], ids=["manifest", "quiet"])
def test_a_wait_for_what_an_older_ledger_does_not_know_ends_with_the_reason(folders, ready):
    folders.say(f"ready: {ready}\n  delete_after: 1d")
    for name, body in FILES.items():
        folders.put(name, body)
    if "manifest" in ready:
        folders.put("manifest.json", json.dumps([{"name": name} for name in FILES]).encode())
    assert folders.run() is not None
    folders.clear()
    forget(folders.shop.bronze)
    assert (folders.waits(), folders.run()) == (None, None), "it was taken, and is gone by what the folder says"
    forget(folders.shop.bronze, batches=True)
    with pytest.raises(landing.LandingError, match=r"was cleared for .* and the ledger knows no batch"):
        folders.waits()


def test_folders_that_were_cleared_by_the_day_are_not_taken_for_a_whole_month(folders):
    prefix = f"{folders.shop.source}_{folders.shop.suffix}/"
    folders.text = folders.text.replace("{interval:%Y-%m-%d}/", "{interval:%Y-%m/%d}/")
    folders.say(f"{READY}\n  archive_after: 1d")
    for name, body in {**FILES, "_SUCCESS": b""}.items():
        folders.put(name, body)
    folders.run()
    folders.clear()
    late = f"bronze.late_{folders.shop.suffix}"
    folders.text = folders.text.replace("{interval:%Y-%m/%d}/", "{interval:%Y-%m}/").replace("@daily", "@monthly")
    folders.say(READY)
    folders.say(READY, late)
    told = f"landing/{prefix}2026-01/01/ was cleared for {folders.shop.bronze} since .* knows no batch of {late} that"
    january = Interval(interval(DAY).start, interval(date(2026, 1, 31)).end)
    with pytest.raises(landing.LandingError, match=told):
        plan_of_run(folders.shop.contract(late), january, Attempt("test/late", 1))
    found = plan_of_run(folders.contract, january, Attempt("test/own", 1))
    assert found is not None, "what it took by the day it knows"
