"""Reading files: what comes out for any format, and the sum of each file."""

from __future__ import annotations

import gzip
import hashlib
import pickle
import sys
from collections.abc import Iterator

import pytest

from lakehouse.errors import LakehouseError
from spark_jobs import readers
from spark_jobs.readers import FILES, RECORDS, content, reader, record
from tests.spark.reading import URI, files, read, rows_of, source


def test_each_file_has_its_records_and_then_one_closing_row_with_its_sum():
    held = {"s3://landing/a": b"one\ntwo\n", "s3://landing/b": b"", "s3://landing/c": b"three"}
    rows = rows_of(reader(source("text"), lambda file: [held[file.uri]])(files(*held)))
    places = [(row["_source_file"][-1], row["_raw_payload"], row["_source_offset"]) for row in rows]
    assert places == [
        ("a", "one", 0),
        ("a", "two", 1),
        ("a", None, -1),
        ("b", None, -1),
        ("c", "three", 0),
        ("c", None, -1),
    ]
    sums = [row["_sha256"] for row in rows if row["_sha256"]]
    assert sums == [hashlib.sha256(data).hexdigest() for data in held.values()]


def test_a_file_is_fetched_as_the_run_was_planned_with_it():
    asked = []
    list(reader(source("text"), lambda file: asked.append(file) or [])(files("s3://landing/a")))
    assert asked == [("s3://landing/a", "1", 9)]


def test_rows_are_given_out_in_batches_of_a_bounded_size(monkeypatch):
    monkeypatch.setattr(readers, "BATCH_BYTES", 1000)
    batches = list(reader(source("text"), lambda *_: [b"x" * 300 + b"\n"] * 10)(files(URI)))
    assert [batch.num_rows for batch in batches] == [2, 2, 2, 2, 2, 1]


def test_many_short_rows_are_bounded_as_well(monkeypatch):
    monkeypatch.setattr(readers, "BATCH_BYTES", 10 * readers.ROW_BYTES)
    batches = list(reader(source("text"), lambda *_: [b"x\n"] * 95)(files(URI)))
    assert max(batch.num_rows for batch in batches) <= 10


def test_rows_of_many_small_files_come_in_one_batch():
    uris = [f"s3://landing/{number}" for number in range(1000)]
    (batch,) = reader(source("text"), lambda file: [file.uri.encode()])(files(*uris))
    rows = batch.to_pylist()
    assert [row["_raw_payload"] for row in rows if row["_source_offset"] == 0] == uris
    assert [row["_source_file"] for row in rows if row["_sha256"]] == uris


def test_a_record_of_any_format_that_is_too_long_for_a_row_is_cut_and_marked(monkeypatch):
    monkeypatch.setattr(record, "LONGEST", 20)
    assert read("csv", b'n\n"\x01\x01\x01\x01"\n') == [(r'{"n":"\u0001\u0001\u', 0, "longer than 64 MiB")]


@pytest.mark.parametrize("form", ["json_lines", "text", "csv", "parquet", "avro"])
def test_a_reader_can_be_sent_to_executors(form):
    sent = pickle.loads(pickle.dumps(reader(source(form))))
    assert (sent.func, sent.args) == (readers._read, (source(form), content.fetched))


@pytest.fixture
def workers(spark, monkeypatch):
    """The session, with workers that run on this Python."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)
    return spark


def test_spark_reads_files_through_it(workers):
    held = {
        "s3://landing/a.gz": gzip.compress('{"id": "nul \0 and 😀"}\n\nno \ufeff\r\n'.encode()),
        "s3://landing/b": b"\xff\n",
    }
    planned = workers.createDataFrame([(uri, "1", len(data)) for uri, data in held.items()], FILES)
    found = planned.mapInArrow(reader(source("json_lines"), lambda file: [held[file.uri]]), RECORDS)
    sums = {uri: hashlib.sha256(data).hexdigest() for uri, data in held.items()}
    assert sorted((tuple(row) for row in found.collect()), key=lambda row: (row[1], row[2])) == [
        (None, "s3://landing/a.gz", -1, None, sums["s3://landing/a.gz"]),
        ('{"id": "nul \0 and 😀"}', "s3://landing/a.gz", 0, None, None),
        ("no \ufeff", "s3://landing/a.gz", 2, None, None),
        (None, "s3://landing/b", -1, None, sums["s3://landing/b"]),
        (r"\xff", "s3://landing/b", 0, "invalid UTF-8", None),
    ]


def test_what_spark_reads_is_kept_in_parquet_as_it_is(workers, tmp_path):
    planned = workers.createDataFrame([(URI, "1", 9)], FILES)
    found = planned.mapInArrow(reader(source("text"), lambda *_: [b"a\0b"]), RECORDS)
    found.write.parquet(str(tmp_path / "kept"))
    assert workers.read.parquet(str(tmp_path / "kept")).where("_source_offset = 0").first()[0] == "a\0b"


def test_a_job_that_cannot_read_a_file_says_which_one(workers):
    def gone(file: content.Planned) -> Iterator[bytes]:
        raise LakehouseError(f"{file.uri} is gone")

    planned = workers.createDataFrame([(URI, "1", 9)], FILES)
    with pytest.raises(Exception, match=f"{URI} is gone"):
        planned.mapInArrow(reader(source("text"), gone), RECORDS).collect()
