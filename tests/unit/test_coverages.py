"""A catalog that gives no answer, in each of the ways that services fail, is one that can be asked again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import pytest

from lakehouse import catalog, coverages
from lakehouse.catalog import CatalogUnreachable
from lakehouse.intervals import Coverage
from lakehouse.settings import settings

Fault = Literal["silent", "cut off", "no table", "no json"] | int


class Failing:
    """An HTTP server that greets as a catalog does and then fails."""

    def __init__(self) -> None:
        self.fault: Fault = "no table"
        self.over = threading.Event()
        failing = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Nothing to say."""

            def do_GET(self) -> None:
                if self.path.startswith("/v1/config"):
                    self._answer(200, b'{"defaults": {}, "overrides": {}}')
                elif failing.fault == "silent":
                    failing.over.wait()
                elif failing.fault == "cut off":
                    self.close_connection = True
                elif failing.fault == "no json":
                    self._answer(200, b"<html>sign in</html>")
                else:
                    status = 404 if failing.fault == "no table" else failing.fault
                    self._answer(status, b'{"error": {"message": "no", "type": "Failed", "code": %d}}' % status)

            def _answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture
def failing(monkeypatch) -> Iterator[Failing]:
    found = Failing()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("LAKEHOUSE_CATALOG_URI", f"http://127.0.0.1:{found.server.server_port}")
    monkeypatch.setenv("LAKEHOUSE_CATALOG_TOKEN", "any")
    monkeypatch.setattr(catalog, "TIMEOUT", (0.5, 0.5))
    settings.cache_clear()
    coverages._catalog.cache_clear()
    yield found
    found.over.set()
    found.server.shutdown()
    found.server.server_close()
    thread.join()
    settings.cache_clear()
    coverages._catalog.cache_clear()


@pytest.mark.parametrize("fault", ["silent", "cut off", "no json", 401, 403, 429, 500, 502, 503, 504])
def test_no_answer_of_any_kind_is_a_catalog_that_cannot_be_reached(failing, fault):
    failing.fault = fault
    with pytest.raises(CatalogUnreachable, match=r"^the catalog at http://127\.0\.0\.1:"):
        coverages.held("silver.orders")
    failing.fault = "no table"
    assert coverages.held("silver.orders") == Coverage()


def test_a_catalog_that_is_not_there_cannot_be_reached_either(monkeypatch):
    monkeypatch.setenv("LAKEHOUSE_CATALOG_URI", "http://127.0.0.1:1")
    settings.cache_clear()
    coverages._catalog.cache_clear()
    with pytest.raises(CatalogUnreachable, match="does not answer"):
        coverages.held("silver.orders")
    settings.cache_clear()
