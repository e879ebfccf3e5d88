"""A way to the object store that counts the requests that pass by."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

REQUEST = re.compile(rb"(?:^|\r\n\r\n)(GET|HEAD) /")


class Counted:
    """Passes bytes on in both directions; a reader's requests have no body, so each begins where one has ended."""

    def __init__(self, endpoint: str) -> None:
        self.upstream = (urlsplit(endpoint).hostname, urlsplit(endpoint).port)
        self.requests = 0
        self._lock = threading.Lock()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.server.getsockname()[1]}"

    def serve(self) -> None:
        with suppress(OSError):  # the socket is closed at the end
            while True:
                asking, _ = self.server.accept()
                answering = socket.create_connection(self.upstream)
                for pair in ((asking, answering, True), (answering, asking, False)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        before = b"\r\n\r\n"
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if counts:
                    with self._lock:
                        self.requests += len(REQUEST.findall(before[-4:] + data))
                    before = data
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def counted(endpoint: str) -> Iterator[Counted]:
    way = Counted(endpoint)
    threading.Thread(target=way.serve, daemon=True).start()
    try:
        yield way
    finally:
        way.server.close()
