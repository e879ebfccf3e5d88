"""Whether what a table holds is what it would hold if it were built now."""

from __future__ import annotations

import pytest

from lakehouse import naming
from lakehouse.backfill.outdated import CONTRACT_CHANGED, Moved, built, cleaned
from lakehouse.batch import BEGINNING, PUBLISHED, UNDONE, Batch, Corrections
from lakehouse.contracts import Gold, Silver
from lakehouse.intervals import Interval
from tests.unit.backfill_world import BRONZE_NAME, GOLD_NAME, SILVER_NAME, batch, contracts, day, days

NONE = Corrections()


@pytest.fixture
def silver(tmp_path) -> Silver:
    found = contracts(tmp_path)[SILVER_NAME]
    assert isinstance(found, Silver)
    return found


@pytest.fixture
def gold(tmp_path) -> Gold:
    found = contracts(tmp_path)[GOLD_NAME]
    assert isinstance(found, Gold)
    return found


def made_from(silver: Silver, interval: Interval, *taken: Batch, replaced=(), version: str | None = None) -> Batch:
    """The batch that a run makes of these of its input."""
    content = [version or silver.version, sorted(one.batch_id for one in taken), replaced]
    mark = naming.digest(content)
    return batch(SILVER_NAME, interval, mark, contract_version=version or silver.version)


def test_a_batch_made_from_what_its_input_holds_is_current(silver):
    taken = batch(BRONZE_NAME, day(1))
    assert cleaned(silver, days(1), [taken], NONE, [made_from(silver, day(1), taken)]) == {}


def test_only_the_interval_whose_input_came_again_is_outdated(silver):
    first, second, more = (batch(BRONZE_NAME, day(n), mark) for n, mark in ((1, "a"), (2, "b"), (2, "c")))
    own = [made_from(silver, day(2), second), made_from(silver, day(1), first)]
    found = cleaned(silver, days(1, 2), [more, second, first], NONE, own)
    assert {one: told.why for one, told in found.items()} == {day(2): "bronze.events was published again"}


def test_a_corrected_file_makes_its_interval_outdated(silver):
    taken = batch(BRONZE_NAME, day(1))
    corrected = Corrections(replaced=((taken.batch_id, "s3://landing/a"),))
    own = made_from(silver, day(1), taken)
    assert list(cleaned(silver, days(1), [taken], corrected, [own])) == days(1)
    again = made_from(silver, day(1), taken, replaced=corrected.replaced)
    assert cleaned(silver, days(1), [taken], corrected, [again, own]) == {}


def test_another_contract_makes_every_interval_outdated(silver):
    taken = [batch(BRONZE_NAME, day(n)) for n in (1, 2)]
    own = [made_from(silver, one.interval, one, version="an older one") for one in taken]
    assert cleaned(silver, days(1, 2), taken, NONE, own) == dict.fromkeys(days(1, 2), CONTRACT_CHANGED)


def test_what_was_undone_and_came_back_the_same_leaves_nothing_to_do(silver):
    taken = batch(BRONZE_NAME, day(1))
    assert (
        cleaned(
            silver, days(1), [taken, batch(BRONZE_NAME, day(1), "b", UNDONE)], NONE, [made_from(silver, day(1), taken)]
        )
        == {}
    )


@pytest.mark.parametrize("came_back", [True, False])
def test_what_was_built_from_something_undone_is_told_so(silver, came_back):
    gone = batch(BRONZE_NAME, day(1), "a", UNDONE)
    inputs = [batch(BRONZE_NAME, day(1), "b"), gone] if came_back else [gone]
    (found,) = cleaned(silver, days(1), inputs, NONE, [made_from(silver, day(1), gone)]).values()
    assert found.undone
    assert "bronze.events" in found.why


def test_a_batch_of_silver_covers_all_batches_of_its_interval(silver):
    hours = [Interval(day(1).start.replace(hour=h), day(1).start.replace(hour=h + 1)) for h in (0, 1)]
    taken = [batch(BRONZE_NAME, hour) for hour in hours]
    assert cleaned(silver, days(1), taken, NONE, [made_from(silver, day(1), *taken)]) == {}


def judged(gold: Gold, moved: Moved, *inputs: Batch, version: str | None = None, undone=()):
    return built(
        gold, days(1, 2, 3), version or gold.version, {SILVER_NAME: moved}, {b.batch_id: b for b in inputs}, undone
    )


def test_gold_that_took_in_all_of_its_inputs_is_current(gold):
    assert judged(gold, Moved()) == ({}, None)


def test_gold_is_outdated_where_its_input_was_published_since(gold):
    newer = batch(SILVER_NAME, day(2))
    outdated, stale = judged(gold, Moved((newer.batch_id,)), newer)
    assert {one: told.why for one, told in outdated.items()} == {day(2): "silver.events was published again"}
    assert not outdated[day(2)].undone
    assert stale is None


def test_gold_is_built_again_after_what_was_undone_anywhere_above_it(gold):
    newer = batch(SILVER_NAME, day(2))
    outdated, _ = judged(gold, Moved((newer.batch_id,)), newer, undone=days(2))
    assert outdated[day(2)].undone


@pytest.mark.parametrize(
    "moved", [Moved(("",)), Moved(("a batch that the ledger lost",)), Moved(lost=True)], ids=["hand", "lost", "expired"]
)
def test_a_change_of_no_interval_makes_gold_stale_as_a_whole(gold, moved):
    outdated, stale = judged(gold, moved)
    assert outdated == {}
    assert stale is not None
    assert not stale.undone


def test_replayed_records_are_of_no_interval(gold):
    replay = batch(SILVER_NAME, Interval(BEGINNING, day(3).end), state=PUBLISHED)
    outdated, stale = judged(gold, Moved((replay.batch_id,)), replay)
    assert outdated == {}
    assert stale is not None


def test_gold_made_from_a_version_that_main_left_is_stale_for_that(gold):
    _, stale = judged(gold, Moved(lost=True, undone=True))
    assert stale is not None
    assert stale.undone


def test_another_contract_makes_gold_stale_as_a_whole(gold):
    assert judged(gold, Moved(), version="an older one") == ({}, CONTRACT_CHANGED)
