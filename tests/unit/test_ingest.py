"""How the reading of landing files is shared out: by bytes and by number, and not to a task for each file."""

from __future__ import annotations

import pytest

from lakehouse.batch import InputFile
from lakehouse.jobs import IngestJob
from spark_jobs.ingest import _parts

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("count", "size", "tasks"),
    [
        (10_000, KB, 4),
        (25_000, KB, 10),
        (1, KB, 1),
        (100, KB, 1),
        (1_000, MB, 62),
        (4, GB, 4),  # a file is read by one task
        (0, 0, 1),
    ],
)
def test_many_small_files_are_few_tasks_and_many_bytes_are_several(count, size, tasks):
    files = [InputFile(uri=f"s3://landing/orders/{number}", etag="1", bytes=size) for number in range(count)]
    assert _parts(IngestJob.model_construct(files=files)) == tasks
