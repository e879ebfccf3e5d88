"""SQL that says the same whenever it runs: a contract's must, or running an interval again would change rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Functions of Spark that depend on when, where or how often they are asked.
_ALWAYS = frozenset({"current_date", "current_timestamp", "localtimestamp"})  # also without brackets
_CALLED = frozenset(
    {
        *("now", "curdate", "current_time", "current_timezone", "current_user", "user", "session_user"),
        *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle"),
        *("monotonically_increasing_id", "spark_partition_id", "input_file_name"),
        *("reflect", "java_method", "try_reflect"),
    }
)
_ASKED_BARE = frozenset({"unix_timestamp"})  # only without an argument
# As in DATE 'today', which Spark reads when the query is made.
_SPOKEN = re.compile(r"\b(?:date|timestamp(?:_ltz|_ntz)?)\s*'\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_PASSED_OVER = r"""--[^\n]* | /\*.*?\*/ | [rR]?'(?:[^'\\]|\\.)*' | [rR]?"(?:[^"\\]|\\.)*" | `[^`]+`"""
_TOKEN = re.compile(
    rf"(?: {_PASSED_OVER} ) | (?<![\w.])(?P<word> [^\W\d]\w* ) (?P<call> \s*\( (?P<bare> \s*\) )? )?",
    re.VERBOSE | re.DOTALL,
)


def unsteady(sql: str) -> Iterator[str]:
    """The functions that the SQL uses and that may say something else the next time, each once."""
    called = [token["word"] for token in _TOKEN.finditer(sql) if token["word"] and _is_unsteady(token)]
    yield from dict.fromkeys([*called, *(spoken[1] for spoken in _SPOKEN.finditer(sql))])


def _is_unsteady(token: re.Match[str]) -> bool:
    word = token["word"].lower()
    return word in _ALWAYS or (bool(token["call"]) and word in _CALLED) or (bool(token["bare"]) and word in _ASKED_BARE)
