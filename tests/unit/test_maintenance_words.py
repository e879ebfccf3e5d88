"""A plan in words: what would be done and why, without a word that only Iceberg knows."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lakehouse.contracts import contract
from lakehouse.health import health
from lakehouse.health.inspected import Inspected
from lakehouse.health.score import score
from lakehouse.maintenance.planned import Seen, plan
from lakehouse.maintenance.told import INTRODUCTION, lines, total
from tests.unit.iceberg_tables import MEGABYTE, append, days, file, made

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ORDERS = contract("silver.orders")


def test_a_plan_is_told_in_words_that_need_no_explanation(tmp_path):
    table = made(tmp_path)
    for day in days(3):
        append(table, [file(f"{day}-{n}", 2 * MEGABYTE, day) for n in range(8)])
    found = health(table)
    seen = Inspected("silver.orders", ORDERS, found, score(found, ORDERS.maintenance, ORDERS.retention, NOW))
    decided = plan(Seen("silver.orders", ORDERS, found, NOW, expirable=4, wanted={"write.x": "y"}))
    text = "\n".join(lines(seen, decided))
    assert "silver.orders: health " in text
    assert "2. Pack small files together." in text
    assert "Why: In ordered_at_day=2026-01-01 and 2 more partitions 24 of 24 files are smaller than" in text
    assert "How: Reads about 48 MB and writes it again as few large files. The rows stay the same." in text
    assert "Why: 4 old versions are past the 7d that the contract keeps." in text
    assert "4. Remove files that nobody uses." in text
    for word in ("manifest", "snapshot", "compact", "binpack", "orphan", "iceberg"):
        assert not re.search(word, INTRODUCTION + text, re.IGNORECASE), word
    assert total(list(decided.steps)) == "4 steps on 1 table; about 48 MB would be read and written again."


def test_a_healthy_table_is_told_so(tmp_path):
    found = health(made(tmp_path))
    seen = Inspected("silver.orders", ORDERS, found, score(found, ORDERS.maintenance, ORDERS.retention, NOW))
    assert list(lines(seen, plan(Seen("silver.orders", ORDERS, found, NOW))))[1:] == ["  Nothing to do."]
    assert total([]) == "All tables are as they should be."
