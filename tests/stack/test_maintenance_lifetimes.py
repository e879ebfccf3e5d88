"""Lifetimes on the real stack: old rows and landing files go, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pytest

from lakehouse.contracts.keeping import Retention
from lakehouse.errors import LakehouseError
from lakehouse.ledger import maintenance as log
from lakehouse.maintenance.carried_out import carry_out
from lakehouse.maintenance.landing_files import ARCHIVE
from lakehouse.maintenance.seen import plans
from lakehouse.naming import ROWS_FROM
from lakehouse.plan import Attempt
from lakehouse.query import run_sql
from lakehouse.sample import Recipe
from lakehouse.store import client
from tests.stack import answers
from tests.stack.shop import Shop, in_session
from tests.stack.tables import loaded
from tests.stack.worn import DAYS, Worn, keep, planned, worn_table

DAY = date(2026, 1, 1)
RECIPE = Recipe.of(0.05, 3, None)


@pytest.fixture
def worn(spark) -> Iterator[Worn]:
    yield from worn_table(spark)


def test_rows_whose_time_is_over_are_gone_and_all_others_stay(worn, spark):
    worn.wear(spark, files=2)
    worn.delete(spark, range(5))
    contract, now = worn.contract(retention={"rows": "10d"}), datetime(2026, 1, 12, tzinfo=UTC)
    written = worn.health().written_at
    assert [step.operation for step in planned(contract, now).steps][:2] == ["set_properties", "delete_rows"]
    (line,) = keep(contract, in_session(spark), "delete_rows", now=now)
    assert "rows 595 → 400" in line
    worn.rows = {number: row for number, row in worn.rows.items() if row[0] != DAYS[0]}
    worn.holds_its_rows()
    found = worn.health()
    assert [one.name for one in found.partitions] == [f"at_day={day}" for day in DAYS[1:]]
    assert found.written_at == written, "the end of rows is no news"
    assert loaded(worn.name).properties[ROWS_FROM] == "2026-01-02T00:00:00+00:00"
    assert log.recent(worn.name, 1)[0]["outcome"] == "done"
    assert "delete_rows" not in {step.operation for step in planned(contract, now).steps}
    before = loaded(worn.name).metadata.snapshots[-2].snapshot_id
    assert run_sql(f"SELECT count(*) FROM {worn.name}", at=str(before))[1][0][0] == 595, "an older version has them"


def test_an_interval_whose_rows_are_over_is_not_cleaned_from_what_is_left(shop, spark):
    shop.deliver([DAY], RECIPE)
    shop.run(shop.bronze, DAY, in_session(spark))
    bronze = shop.contract(shop.bronze)
    short = bronze.model_copy(update={"retention": Retention.model_validate({"snapshots": "7d", "rows": "30d"})})
    steps = [step for _, plan in plans(short, datetime.now(UTC)) for step in plan.steps]
    ended = [step for step in steps if step.operation == "delete_rows"]
    list(carry_out(short, ended, Attempt(f"test/{uuid4().hex}", 1), in_session(spark)))
    assert answers.bronze_count(shop, DAY) == 0
    with pytest.raises(LakehouseError, match=r"no longer holds the rows of .*: their lifetime is over"):
        shop.run(shop.silver, DAY, in_session(spark))


def removed(shop: Shop, **retention: object) -> str:
    """Maintain bronze with no lifetime at all for its landing files; the step's line."""
    kept = Retention.model_validate({"snapshots": "0s", "landing": "0s", **retention})
    contract = shop.contract(shop.bronze).model_copy(update={"retention": kept})
    ((_, plan),) = plans(contract, datetime.now(UTC) + timedelta(seconds=5))
    steps = [step for step in plan.steps if step.operation == "remove_landing_files"]
    return "; ".join(carry_out(contract, steps, Attempt(f"test/{uuid4().hex}", 1), in_session_never))


def in_session_never(job: object) -> None:
    raise AssertionError(f"no job was needed, and one ran: {job}")


@pytest.mark.parametrize("archive", [False, True])
def test_landing_files_go_after_they_were_ingested_and_one_that_has_changed_stays(archive, shop, spark):
    shop.deliver([DAY], RECIPE)
    done = shop.run(shop.bronze, DAY, in_session(spark))
    assert done is not None
    before = shop.landed(DAY)
    data = sorted(key for key in before if not key.endswith("_SUCCESS"))
    client().put_object(Bucket="landing", Key=data[0], Body=before[data[0]] + b"\n")
    line = removed(shop, archive=archive)
    assert f"{len(data) - 1} files removed" in line
    assert {key for key in shop.landed(DAY) if not key.endswith("_SUCCESS")} == {data[0]}
    assert removed(shop, archive=archive) == "", "each is removed once"
    row = log.recent(shop.bronze, 1)[0]
    assert row["detail"] | {"files": []} == {"removed": len(data) - 1, "changed": 1, "gone": 0, "files": []}
    for key in data[1:] if archive else ():
        assert client().get_object(Bucket="landing", Key=ARCHIVE + key)["Body"].read() == before[key]
    assert answers.bronze_count(shop, DAY) == done.batch.counts["rows_in"]
