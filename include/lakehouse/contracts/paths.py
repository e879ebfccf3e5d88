"""How a contract names fields of a record: paths, and the names within SQL."""

from __future__ import annotations

import re
from collections.abc import Callable

_STEP = re.compile(
    r"""(?: "(?P<quoted> (?:[^"\\]|\\.)* )" | (?P<plain> [^."\[][^.\[]* ) )
        (?P<indexes> (?:\[\d{1,9}\])* ) (?P<more> \.? )""",
    re.VERBOSE | re.DOTALL,
)
# In SQL: a text, a name in backticks, a number, or a word, with the bracket that makes it a function.
_TOKEN = re.compile(
    r"""[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]+` | \d[\w.]* |
        [^\W\d][\w.]*(?:\s*\()?""",
    re.VERBOSE | re.DOTALL,
)
_SQL_WORDS = {"and", "or", "not", "is", "null", "in", "like", "between", "true", "false"}


def steps(path: str) -> tuple[str | int, ...]:
    """The fields and indexes of a path such as items[0]."unit.price".amount, from the outside in."""
    found: list[str | int] = []
    position, more = 0, True
    while more:
        step = _STEP.match(path, position)
        if not step:
            break
        quoted = step["quoted"]
        found.append(step["plain"] if quoted is None else re.sub(r'\\(["\\])', r"\1", quoted))
        found += [int(index) for index in re.findall(r"\d+", step["indexes"])]
        position, more = step.end(), bool(step["more"])
    if more or position < len(path):
        hint = 'put dots between names, [0] behind a list, and double quotes around a name that holds . [ or "'
        raise ValueError(f"'{path}' is no path; {hint}")
    return tuple(found)


def names(sql: str) -> list[str]:
    """The names that an SQL condition uses, each once; words of SQL that are not known here count as names."""
    return list(dict.fromkeys(name for token in _TOKEN.finditer(sql) if (name := _name(token[0]))))


def with_names(sql: str, replace: Callable[[str], str]) -> str:
    """An SQL condition with each name replaced; its texts, numbers and functions stay."""
    return _TOKEN.sub(lambda token: replace(name) if (name := _name(token[0])) else token[0], sql)


def _name(token: str) -> str | None:
    if token[0] == "`":
        return token.strip("`")
    word = re.fullmatch(r"[^\W\d][\w.]*", token)
    return token if word and token.lower() not in _SQL_WORDS else None
