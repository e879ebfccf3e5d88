"""SQL that may say something else the next time is found, and nothing else is taken for it."""

from __future__ import annotations

import pytest

from lakehouse.contracts.steady import unsteady


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("current_timestamp()", ["current_timestamp"]),
        ("at < Current_Date", ["Current_Date"]),
        ("datediff(now(), at) > 3 OR at > now ( )", ["now"]),
        ("rand() < 0.5 AND uuid() <> id", ["rand", "uuid"]),
        ("unix_timestamp()", ["unix_timestamp"]),
        ("unix_timestamp(at)", []),
        ("uuid <> '' AND now > 3 AND t.rand = 1", []),
        ("note <> 'now()' AND `rand()` = \"uuid()\"", []),
        ("SELECT 1 -- as of now()\n, /* rand()\n */ 2", []),
        ("SELECT 'it''s', '\\' now()' , current_user()", ["current_user"]),
        ("current_dates + snow()", []),
        ("at > DATE'today' OR at < timestamp ' Now'", ["today", "Now"]),
        ("at > DATE'2026-01-01' AND note = 'today'", []),
    ],
)
def test_what_depends_on_when_it_is_asked_is_found(sql, found):
    assert list(unsteady(sql)) == found
