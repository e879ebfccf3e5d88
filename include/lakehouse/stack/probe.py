"""Asking a local service whether it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

SECONDS = 5.0


def get(url: str, token: str = "") -> httpx.Response | None:
    """The answer to a GET, with a bearer token if given; None when there is no answer."""
    import httpx

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        # Local addresses are never reached through a proxy.
        with httpx.Client(timeout=SECONDS, trust_env=False) as client:
            return client.get(url, headers=headers)
    except httpx.HTTPError:
        return None
