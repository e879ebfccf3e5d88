"""A webhook of a test's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

SECRET = "hush-3f9a"


class Receiver:
    """What a webhook is: takes JSON by POST, answers with `status`, and keeps what it took."""

    def __init__(self, port: int = 0) -> None:
        self.port, self.status = port, 200
        self.taken: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{SECRET}"

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(alert["event"], alert["interval_start"][:10]) for alert in self.taken]

    @contextmanager
    def up(self) -> Iterator[None]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                alert = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if receiver.status == 200:
                    receiver.taken.append(alert)
                    receiver.keys.append(self.headers["Idempotency-Key"])
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        with HTTPServer(("127.0.0.1", self.port), Handler) as server:
            self.port = server.server_port
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            yield
            server.shutdown()
