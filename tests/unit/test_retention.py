"""What is kept longer than a table's own retention says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse import naming, retention
from lakehouse.contracts import contract as shop
from lakehouse.contracts.keeping import Retention
from lakehouse.maintenance.expiry import bounds
from lakehouse.retention import _retained, keep_inputs
from tests.unit.iceberg_tables import append, catalog, file, replace, versions, with_versions
from tests.unit.promising import contract


def test_inputs_are_kept_for_every_version_that_expiry_leaves(tmp_path):
    """Versions that maintenance made do not take the place of those that the contract keeps."""
    table = with_versions(tmp_path, 3)
    written = versions(table)
    for _ in range(4):
        replace(table)
    later = datetime.now(UTC) + timedelta(days=365)
    asked = contract(retention={"snapshots": "7d", "keep_last": 2})
    assert set(written[-2:]) <= set(_retained(asked, table, later))
    assert len(_retained(asked, table, later)) == bounds(table.metadata, asked.retention, later)[1]


@pytest.mark.parametrize("reads", [["silver.orders"], ["silver.customers"]], ids=["reads it", "reads it no more"])
def test_inputs_are_kept_for_as_long_as_versions_name_them_whatever_the_contract_reads_by_now(
    tmp_path, monkeypatch, reads
):
    table, known = with_versions(tmp_path, 3), catalog(tmp_path)
    known.create_namespace("gold")
    gold = known.create_table("gold.daily_sales", table.schema())
    for number, used in enumerate(versions(table)[:2]):
        made_from = {naming.BATCH: f"gold-{number}", naming.INPUTS: json.dumps({"silver.orders": used})}
        append(gold, [file(f"gold-{number}", 5, day=None)], **made_from)
    monkeypatch.setattr(retention, "catalog", lambda: known)
    monkeypatch.setattr(retention, "table", lambda name: known.load_table(name) if known.table_exists(name) else None)
    kept = Retention.model_validate({"snapshots": "7d", "keep_last": 1})
    reader = shop("gold.daily_sales").model_copy(update={"reads": tuple(reads), "retention": kept})

    def tagged(now: datetime) -> set[int]:
        keep_inputs("silver.orders", [shop("silver.orders"), reader], now, all_known=True)
        refs = known.load_table("silver.orders").refs()
        return {ref.snapshot_id for name, ref in refs.items() if name.startswith(naming.INPUT_TAG)}

    now = datetime.now(UTC)
    assert tagged(now) == set(versions(table)[:2])
    assert tagged(now + timedelta(days=8)) == {versions(table)[1]}, "of gold, the last version alone is kept by then"
