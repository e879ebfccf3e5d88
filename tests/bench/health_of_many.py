"""The health of a table of many files, in a process of its own: its time, and the most memory that it took.

python -m tests.bench.health_of_many FOLDER FILES
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

from lakehouse.health import health
from tests.unit import iceberg_tables as tables

A_COMMIT = 1_000


def most_memory() -> float:
    """MiB. What getrusage says would be the parent's, if that was larger."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1024


def main(folder: Path, files: int) -> dict[str, float]:
    table, days = tables.made(folder), tables.days(100)
    for commit in range(files // A_COMMIT):
        named = (tables.file(f"{commit}-{n}", n + 1, days[n % 100], metrics=20) for n in range(A_COMMIT))
        tables.append(table, named)
    begun = time.perf_counter()
    found = health(tables.catalog(folder).load_table("silver.orders"))
    seconds = time.perf_counter() - begun
    assert found.files == files
    return {"seconds": seconds, "mib": most_memory()}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
