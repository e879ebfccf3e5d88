"""A proxy before the catalog that passes every request on, and can spoil the answer to a commit that succeeded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import httpx

Spoilt = Literal["dropped", 500, 502, 503, 504]
_PASSED_ON = ("authorization", "content-type", "idempotency-key")


class Proxy:
    """Answers to the next commits with a given update that succeed are spoilt, one way each, in the order given."""

    def __init__(self, upstream: str, update: bytes, spoil: list[Spoilt]) -> None:
        self.spoil, self.spoilt = spoil, 0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """The catalog has a log of its own."""

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name: value for name, value in self.headers.items() if name.lower() in _PASSED_ON}
                answer = httpx.request(self.command, upstream + self.path, headers=headers, content=body, timeout=60)
                is_commit = self.command == "POST" and update in body and answer.is_success
                status, content = answer.status_code, answer.content
                if is_commit and proxy.spoil:
                    proxy.spoilt += 1
                    how = proxy.spoil.pop(0)
                    if how == "dropped":
                        self.close_connection = True
                        self.connection.close()
                        return
                    status, content = how, b'{"error": {"message": "spoilt", "type": "Spoilt", "code": %d}}' % how
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def proxied(upstream: str, update: bytes, *spoil: Spoilt) -> Iterator[Proxy]:
    """A running proxy before the catalog."""
    proxy = Proxy(upstream, update, list(spoil))
    thread = threading.Thread(target=proxy.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.server.shutdown()
        proxy.server.server_close()
        thread.join()
