"""A folder of contracts of one's own: what is right becomes DAGs, what is wrong is told in the UI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dags.conftest import Parsed

LAYERS = """
bronze: {sla: {ready_within: 45m}, retention: {snapshots: 7d}, maintenance: {tier: daily}}
silver: {sla: {ready_within: 2h}, retention: {snapshots: 7d}, maintenance: {tier: daily}}
"""
CLICKS = """
dataset: bronze.clicks
description: Clicks.
owner: web
start: 2026-03-01
end: 2026-03-06
timezone: Europe/Berlin
source: {kind: files, path: "clicks/{interval:%Y-%m-%d}/"}
"""
HOURLY = """
dataset: bronze.hourly
description: By the hour.
owner: web
sla: {ready_within: null}
schedule: "@hourly"
start: 2026-03-04
source: {kind: files, path: "hourly/{interval:%Y-%m-%dT%H}/"}
"""
BROKEN = """
dataset: silver.broken
description: Broken.
owner: web
start: 2026-03-01
reads: bronze.clicks
columns:
  click_id: {type: bigint, required: true, from: id}
  seen_at:  {type: timestamp, from: at}
key: [click_id]
newest_by: [seen_at]
partition_by: [day(sen_at)]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("contracts")
    files = {"layers": LAYERS, "bronze/clicks": CLICKS, "bronze/hourly": HOURLY, "silver/broken": BROKEN}
    for name, text in files.items():
        file = found / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return found


@pytest.fixture(scope="module")
def own(parse, folder) -> Parsed:
    """What Airflow makes of that folder, where nothing is to be scheduled before the third of March."""
    return parse(contracts=str(folder), start="2026-03-03")


def test_a_broken_contract_leaves_the_other_dags_loaded(own):
    of_contracts = {"bronze_clicks", "bronze_hourly"}
    assert set(own["dags"]) == {*of_contracts, "maintenance_daily", "rollback", "watch_freshness"}


def test_a_broken_contract_is_an_import_error_that_names_file_field_and_fix(own, folder):
    assert set(own["errors"]) == {"contract_problems.py"}
    told = f"{folder}/silver/broken.yaml: partition_by[0]: no column 'sen_at'; did you mean 'seen_at'?"
    assert told in own["errors"]["contract_problems.py"]


def test_nothing_is_scheduled_before_the_platforms_start(own):
    assert own["intervals"]["bronze_clicks"][0][0] == "2026-03-02T23:00:00+00:00"


def test_a_contract_that_starts_later_keeps_its_start(own):
    assert own["intervals"]["bronze_hourly"][0] == ["2026-03-04T00:00:00+00:00", "2026-03-04T01:00:00+00:00"]


def test_no_interval_begins_on_or_after_the_contracts_end(own):
    starts = [start for start, _ in own["intervals"]["bronze_clicks"]]
    assert starts == ["2026-03-02T23:00:00+00:00", "2026-03-03T23:00:00+00:00", "2026-03-04T23:00:00+00:00"]


def test_days_are_days_of_the_contracts_zone(own):
    assert own["dags"]["bronze_clicks"]["timetable"]["__var"]["timezone"] == "Europe/Berlin"


def test_a_dataset_that_promises_nothing_has_no_deadline(own):
    assert own["dags"]["bronze_hourly"].get("deadline") is None
    assert len(own["dags"]["bronze_clicks"]["deadline"]) == 1


def test_a_page_leads_to_the_runbooks_where_they_are_read():
    from lakehouse_airflow.docs import link

    there = "https://docs.example.org/runbooks/README.md"
    assert link(there) == f"[runbooks]({there})"
    assert link("include/docs/runbooks/README.md") == "`include/docs/runbooks/README.md`"


def test_a_layers_sla_is_on_the_page(own):
    assert "within 45m" in own["dags"]["bronze_clicks"]["doc_md"]
