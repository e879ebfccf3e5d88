"""What is kept longer than a table's own retention says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakehouse.maintenance.expiry import bounds
from lakehouse.retention import _retained
from tests.unit.iceberg_tables import replace, versions, with_versions
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
