"""What a task's log says in the end."""

from __future__ import annotations

import pytest

from lakehouse.airflow_api import _last_event

RAISED = {
    "event": "Task failed with exception",
    "level": "error",
    "error_detail": [{"exc_type": "AirflowFailException", "exc_value": "silver.orders: 3 values occur twice"}],
}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([{"event": "waiting for a"}, {"event": "::endgroup::"}], "waiting for a"),
        ([{"event": "running"}, RAISED], "silver.orders: 3 values occur twice"),
        ([RAISED, {"event": "released"}], "released"),
        ([{"event": "two\nlines\n"}], "lines"),
        ([], "its log is empty"),
    ],
)
def test_the_last_line_is_what_was_said_last_and_of_an_exception_what_it_says(content, told):
    assert _last_event(content) == told
