"""A proxy before the catalog that passes every request on, and can hold a commit or spoil the answer to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import httpx

# What a commit holds that brings data files; that which makes a branch of an empty table brings none.
DATA = b'"added-data-files"'
# What happens to a commit: it is held before the catalog sees it, or its answer is held, lost or replaced.
Fault = Literal["held", "answer held", "dropped", 400, 500, 502, 503, 504]
_PASSED_ON = ("authorization", "content-type", "idempotency-key")


class Proxy:
    """The next commit with a given update, to a given table or to any, meets with a fault; later ones are passed on."""

    def __init__(self, upstream: str, update: bytes, fault: Fault, table: str = "") -> None:
        self._first = threading.Lock()
        self.seen: list[tuple[float, str]] = []  # each request: when, and for what
        self.struck = threading.Event()
        self.released = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 60  # a connection on which nothing is asked is not waited for

            def log_message(self, *_: object) -> None:
                """The catalog has a log of its own."""

            def _pass_on(self) -> None:
                proxy.seen.append((time.monotonic(), self.path))
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                meant = self.command == "POST" and update in body and self.path.endswith(f"/{table}" if table else "")
                strikes = meant and proxy._first.acquire(blocking=False)
                if strikes and fault == "held":
                    proxy.hold()
                headers = {name: value for name, value in self.headers.items() if name.lower() in _PASSED_ON}
                answer = httpx.request(self.command, upstream + self.path, headers=headers, content=body, timeout=60)
                status, content = answer.status_code, answer.content
                if strikes and answer.status_code == 409 and fault != "held":
                    proxy._first.release()  # another commit of the same job was faster: the fault is for its next
                elif strikes and fault != "held":
                    assert answer.is_success, content
                    if fault == "answer held":
                        proxy.hold()
                    elif fault == "dropped":
                        proxy.struck.set()
                        self.close_connection = True
                        self.connection.close()
                        return
                    else:
                        proxy.struck.set()
                        status = fault
                        content = b'{"error": {"message": "spoilt", "type": "Spoilt", "code": %d}}' % fault
                with suppress(OSError):  # who asked may be gone
                    self._answer(status, content)

            def _answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False  # so that closing it waits for what is let go
        self.uri = f"http://127.0.0.1:{self.server.server_port}"

    def hold(self) -> None:
        self.struck.set()
        self.released.wait()


@contextmanager
def proxied(upstream: str, update: bytes, fault: Fault, table: str = "") -> Iterator[Proxy]:
    """A running proxy before the catalog; in the end, what it holds is let go and waited for."""
    proxy = Proxy(upstream, update, fault, table)
    thread = threading.Thread(target=proxy.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.released.set()
        proxy.server.shutdown()
        proxy.server.server_close()
        thread.join()
