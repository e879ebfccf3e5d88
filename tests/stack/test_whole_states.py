"""Readers of main see whole batches only, whatever is published and compacted beside them."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pyiceberg.exceptions import CommitFailedException
from pyspark.errors import PySparkException

from lakehouse.catalog import ref_snapshot
from lakehouse.publish import MainMoved, drop_branches, publish
from tests.stack import tables

BATCHES = 50
# Compaction begins so often, and goes on while the next batches are written and published.
EVERY = 5
# Each batch is two commits on its branch, of so many rows each: half of it would be seen if anything showed the branch.
ROWS = 20


@dataclass
class Beside:
    """What goes on beside the writer."""

    name: str
    done: threading.Event = field(default_factory=threading.Event)
    worn: threading.Event = field(default_factory=threading.Event)


def test_fifty_publishes_with_compaction_beside_them_show_no_part_of_a_batch(name, spark):
    """A batch's rows have its number for a value: a reader counts them."""
    tables.add(name, [0] * 2 * ROWS)
    beside, rewritten = Beside(name), 0
    with ThreadPoolExecutor(2) as pool:
        seen = pool.submit(read, beside)
        compacted = pool.submit(compact, beside, spark)
        try:
            for number in range(1, BATCHES + 1):
                rewritten += write_and_publish(name, number)
                if number % EVERY == 0:
                    beside.worn.set()
        finally:
            beside.done.set()
            beside.worn.set()
        states, compactions = seen.result(), compacted.result()
    assert Counter(tables.ids(name)) == dict.fromkeys(range(BATCHES + 1), 2 * ROWS)
    assert len(states) > 5, "the reader saw the table grow"
    assert compactions > 0
    print(f"{len(states)} states seen, {compactions} compactions, {rewritten} batches written again")


def write_and_publish(name: str, number: int) -> int:
    """As a run does: where main has moved, once more on the new base; how often that was."""
    for again in range(100):
        branch = f"audit_{number}_{again}"
        try:
            write = tables.write(name, [number] * ROWS, branch)
            publish(write.model_copy(update={"head": tables.add(name, [number] * ROWS, branch)}))
        except (MainMoved, CommitFailedException):  # PyIceberg gives up after four compactions between
            drop_branches(name, branch)
        else:
            return again
    raise AssertionError("main moved a hundred times")


def read(beside: Beside) -> set[int]:
    """Read main over and over; the snapshots that were seen, each whole."""
    seen: set[int] = set()
    while not beside.done.is_set():
        found = tables.loaded(beside.name)
        snapshot = ref_snapshot(found) or 0
        rows = Counter(found.scan(snapshot_id=snapshot).to_arrow()["id"].to_pylist())
        assert set(rows.values()) == {2 * ROWS}, f"a part of a batch is seen at {snapshot}: {rows}"
        assert set(rows) == set(range(len(rows))), "a batch is missing before a later one"
        seen.add(snapshot)
    return seen


def compact(beside: Beside, spark) -> int:
    """Rewrite the table's files whenever it is worn; how often that came to a commit."""
    compactions = 0
    options = "map('rewrite-all', 'true', 'min-input-files', '1')"
    while beside.worn.wait() and not beside.done.is_set():
        beside.worn.clear()
        try:
            spark.sql(f"CALL lake.system.rewrite_data_files(table => '{beside.name}', options => {options})")
        except PySparkException as error:
            if "CommitFailed" not in str(error):  # a publish was faster
                raise
        else:
            compactions += 1
    return compactions
