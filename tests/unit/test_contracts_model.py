"""A contract once it is read: its version, its way through JSON, its intervals and its folders."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import yaml

from lakehouse.contracts import AnyContract, load
from lakehouse.contracts.model import MODELS
from lakehouse.intervals import Interval
from tests.unit.contract_folder import BRONZE, LAYERS, SHIPPED, SILVER, loaded


def silver(text: str) -> AnyContract:
    return MODELS["silver"].model_validate(yaml.safe_load(LAYERS)["silver"] | yaml.safe_load(text))


@pytest.mark.parametrize(
    ("right", "other"),
    [
        ("owner: team", "owner: others"),
        ("description: Events.", "description: All events."),
        ("from: amount,", "from: amount, description: What was paid,"),
        ("key: [event_id]", "key: [event_id]\nupdate_mode: copy_on_write"),
        ("key: [event_id]", "key: [event_id]\nsla: {ready_within: 5m}"),
    ],
)
def test_what_changes_no_row_keeps_the_version(right, other):
    assert right in SILVER
    assert silver(SILVER).version == silver(SILVER.replace(right, other)).version


@pytest.mark.parametrize(
    ("right", "other"),
    [
        ("amount >= 0", "amount > 0"),
        ("from: amount", "from: after.amount"),
        ("newest_by: [seen_at]", "newest_by: [event_id]"),
    ],
)
def test_what_changes_rows_changes_the_version(right, other):
    assert right in SILVER
    assert silver(SILVER).version != silver(SILVER.replace(right, other)).version


@pytest.mark.parametrize("contract", load(SHIPPED).contracts.values(), ids=lambda contract: contract.dataset)
def test_a_contract_survives_the_way_through_json(contract):
    again = type(contract).model_validate_json(contract.model_dump_json(by_alias=True))
    assert again == contract
    assert again.version == contract.version


def test_the_newest_interval_ends_at_the_schedules_last_tick(tmp_path):
    contract = loaded(tmp_path).contracts["bronze.events"]
    midnight = datetime(2026, 1, 3, tzinfo=UTC)
    day = Interval(midnight - timedelta(days=1), midnight)
    assert contract.interval_ending_by(midnight) == day
    assert contract.interval_ending_by(midnight - timedelta(microseconds=1)) == contract.interval_before(day)


def test_the_landing_prefix_is_that_of_the_contracts_zone():
    text = BRONZE + "timezone: Europe/Berlin\n"
    contract = MODELS["bronze"].model_validate(yaml.safe_load(LAYERS)["bronze"] | yaml.safe_load(text))
    night = datetime(2026, 1, 1, 23, tzinfo=UTC)
    assert contract.landing_prefix(night) == "events/2026-01-02/"
