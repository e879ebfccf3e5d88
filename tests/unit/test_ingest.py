"""How the reading of landing files is shared out, by bytes and by number; and which records lose bytes."""

from __future__ import annotations

import re

import pytest

from lakehouse.batch import InputFile
from lakehouse.contracts.fields import Csv
from lakehouse.jobs import IngestJob
from spark_jobs.ingest import _parts
from spark_jobs.readers import delimited, lines, record

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


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (b"a,b\n1\n1,2,3\n", 0),
        (b'a,b\n"1","2\n3",4\n', 0),
        (b'a,b\n1,"x"y\n', 0),
        (b'a,"b"c\n1,2\n', 0),
        (b'a,b\n1,"x\n\n2,y\n', 1),  # blank lines may have been a part of it
        (b"a,b\n1,\xff\n", 1),
        (b"a,b\n1,2,\xff\n", 1),
        (b'a,b\n1,"x"\xff\n', 1),
        (b'a,b\n1,"\xff\n', 1),
        (b"a,\xff\n1,2\n", 1),
        (b"a,b\n" + b"x" * 200, 1),
    ],
)
def test_a_record_that_is_kept_raw_and_whole_has_lost_nothing(monkeypatch, text, lost):
    monkeypatch.setattr(record, "LONGEST", 100)
    found = [one.malformed for one in delimited.records(lines.lines([text]), Csv()) if one.malformed]
    assert found
    assert len([reason for reason in found if not re.search(delimited.WHOLE, reason)]) == lost
