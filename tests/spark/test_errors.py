"""What on-call reads: one line that says what is wrong, whoever raised it."""

from __future__ import annotations

import pytest

from lakehouse.identities import acting_as
from lakehouse.roles import Role
from spark_jobs.errors import one_sentence

WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
lakehouse.errors.LakehouseError: s3://landing/a.json is gone; run it again

JVM stacktrace:
org.apache.spark.SparkException: no.such.Thing: else
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (WORKER, "error: s3://landing/a.json is gone; run it again"),
        ("[DIVIDE_BY_ZERO] Division by zero.\n\nJVM stacktrace:\nat x", "error: [DIVIDE_BY_ZERO] Division by zero."),
        ("", "error: ValueError"),
    ],
)
def test_the_last_line_says_what_is_wrong(text, sentence):
    assert one_sentence(ValueError(text)) == sentence


def test_what_the_store_refuses_is_told_with_the_role():
    text = "Job aborted due to stage failure: Failed to close current writer\nCaused by: x.AccessDeniedException: no"
    with acting_as(Role.TRANSFORM):
        told = one_sentence(ValueError(text))
    assert told.startswith("error: the object store at ")
    assert told.endswith(" refuses: role transform may not do that")
