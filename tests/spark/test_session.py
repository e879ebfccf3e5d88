"""A job's way to the Connect server."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from lakehouse.settings import settings
from spark_jobs import session


@pytest.mark.parametrize(
    ("address", "sent"),
    [
        ("sc://far.example:15002", ["Bearer ours"]),
        ("sc://far.example:15002/;use_ssl=true", ["Bearer ours"]),
        ("sc://far.example:15002/;use_ssl=true;token=theirs", []),  # as the call's credentials
    ],
)
def test_the_token_goes_to_any_host_once(monkeypatch, address, sent):
    monkeypatch.delenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", raising=False)
    known = settings().model_copy(update={"spark_token": SecretStr("ours")})
    monkeypatch.setattr(session, "settings", lambda: known)
    found = [value for name, value in session.TokenChannel(address).metadata() if name == "authorization"]
    assert found == sent
